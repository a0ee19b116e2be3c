"""One self-contained HTML file about a table's calibration: verdict, pictures, comparison.

`figures` computes a model's leave-one-out figures, `verdict` puts them in words, `comparison`
cross-validates, `findings` collects all of it, `pictures` draws, and `page` renders `report.html`.
"""

from angcal.report.findings import Findings, examine, summary, verdict
from angcal.report.page import make_report, page

__all__ = ["Findings", "examine", "make_report", "page", "summary", "verdict"]
