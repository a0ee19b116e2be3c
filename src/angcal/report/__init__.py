"""One self-contained HTML file about a table's calibration: verdict, pictures, comparison.

``findings`` computes, ``comparison`` cross-validates, ``verdict`` puts it in words, ``figures``
draws, ``page`` assembles.
"""

from angcal.report.findings import Findings, examine
from angcal.report.making import make_report
from angcal.report.page import page
from angcal.report.verdict import summary, verdict

__all__ = ["Findings", "examine", "make_report", "page", "summary", "verdict"]
