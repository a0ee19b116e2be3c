"""Every result of the study by name, in the order of the documentation."""

from __future__ import annotations

from studies.engine.experiment import Result
from studies.paper.draw_figures import RESULTS as NUMBERS
from studies.paper.errata import RESULTS as ERRATA
from studies.paper.panel_figures import (
    CONVERGENCE,
    RELIABILITY,
    UNIVERSALITY_RADEMACHER,
    UNIVERSALITY_UNIFORM,
)
from studies.paper.phase_figures import PHASE_DIAGRAM, PHASE_WINNERS
from studies.paper.semireal_tables import RESULTS as REAL_TABLES
from studies.paper.sign_bound import SIGN_BOUND
from studies.paper.theorem_figures import BREGMAN, CALIBRATION_ERROR

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
