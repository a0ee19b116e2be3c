"""Every result of the study by name, in the order of the documentation."""

from __future__ import annotations

from angcal.reproduce.draw_figures import RESULTS as NUMBERS
from angcal.reproduce.errata import RESULTS as ERRATA
from angcal.reproduce.experiment import Result
from angcal.reproduce.panel_figures import (
    CONVERGENCE,
    RELIABILITY,
    UNIVERSALITY_RADEMACHER,
    UNIVERSALITY_UNIFORM,
)
from angcal.reproduce.phase_figures import PHASE_DIAGRAM, PHASE_WINNERS
from angcal.reproduce.semireal_tables import RESULTS as REAL_TABLES
from angcal.reproduce.sign_bound import SIGN_BOUND
from angcal.reproduce.theorem_figures import BREGMAN, CALIBRATION_ERROR

RESULTS: dict[str, Result] = {
    result.name: result
    for result in (
        CONVERGENCE,
        RELIABILITY,
        *NUMBERS,
        UNIVERSALITY_RADEMACHER,
        UNIVERSALITY_UNIFORM,
        CALIBRATION_ERROR,
        BREGMAN,
        SIGN_BOUND,
        *ERRATA,
        PHASE_DIAGRAM,
        PHASE_WINNERS,
        *REAL_TABLES,
    )
}
