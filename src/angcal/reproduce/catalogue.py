"""Every result of the study by name, in the order of the documentation."""

from __future__ import annotations

from angcal.reproduce.draw_figures import RESULTS as NUMBERS
from angcal.reproduce.experiment import Result

RESULTS: dict[str, Result] = {result.name: result for result in (*NUMBERS,)}
