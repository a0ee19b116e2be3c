"""Every result of the study by name, in the order of the documentation."""

from __future__ import annotations

from functools import partial

from studies.engine.experiment import Result
from studies.paper import draw_figures as numbers
from studies.paper import errata_figures as gaps
from studies.paper import panel_figures as panels
from studies.paper import phase_figures as phase
from studies.paper import semireal_tables as real
from studies.paper import sign_bound
from studies.paper import theorem_figures as theorems
from studies.paper.draws import DRAWS
from studies.paper.errata import INTERCEPT, POOLS
from studies.paper.panels import GAUSSIAN, RADEMACHER, UNIFORM
from studies.paper.phase import PHASE
from studies.paper.semireal import TABLES
from studies.paper.theorems import THEOREMS

RESULTS: dict[str, Result] = {
    result.name: result
    for result in (
        Result(
            "platt-convergence",
            "Platt scaling converges to the angular predictor as labels grow (figure asymp)",
            *(GAUSSIAN, panels.summarize_convergence, panels.draw_convergence),
        ),
        Result(
            "reliability",
            "Reliability plots: uncalibrated, angular, Platt (figure combinedcalib)",
            *(GAUSSIAN, panels.summarize_reliability, panels.draw_reliability),
        ),
        Result(
            "inner-product",
            "⟨w*, ŵ⟩ estimated against true, and where the paper's pair falls",
            *(DRAWS, numbers.summarize_inner, numbers.draw_inner),
        ),
        Result(
            "platt-coefficients",
            "Platt's fitted (A, B) at 20,000 labels against their limit",
            *(DRAWS, numbers.summarize_platt, numbers.draw_platt),
        ),
        Result(
            "sign",
            "how often the sign of the angle is wrong, with and without a holdout",
            *(DRAWS, numbers.summarize_sign, numbers.draw_sign),
        ),
        *(
            Result(
                f"universality-{experiment.name}",
                f"The same panels for {experiment.name} entries and two links (figure {figure})",
                *(experiment, panels.summarize_universality, panels.draw_universality),
            )
            for experiment, figure in ((RADEMACHER, "Rad"), (UNIFORM, "Unif"))
        ),
        Result(
            "calibration-error",
            "Theorem 1: the calibration error Δ_p over p, and its fall with n",
            *(THEOREMS, theorems.summarize_calibration, theorems.draw_calibration),
        ),
        Result(
            "bregman",
            "Theorem 2: every Bregman loss of every method over the angular one",
            *(THEOREMS, theorems.summarize_bregman, theorems.draw_bregman),
        ),
        Result(
            sign_bound.NAME,
            "The proposition's bound on the sign error against the measured error",
            *(sign_bound.SIGN_EXPERIMENT, sign_bound.summarize, sign_bound.draw),
        ),
        Result(
            "finite-pool",
            "the paper's angle estimate with Σ from m unlabeled rows, and its correction",
            *(POOLS, gaps.summarize_pools, gaps.draw_pools),
        ),
        Result(
            "intercept",
            "the angle of a fit with an intercept, and what a fit without one predicts",
            *(INTERCEPT, gaps.summarize_intercept, gaps.draw_intercept),
        ),
        Result(
            "phase-diagram",
            "Beyond the paper: ECE of every method over n/d and ridge strength",
            *(PHASE, phase.summarize_diagram, phase.draw_diagram),
        ),
        Result(
            "phase-winners",
            "Beyond the paper: which method calibrates best over n/d and ridge strength",
            *(PHASE, phase.summarize_winners, phase.draw_winners),
        ),
        *(
            Result(
                f"table-{table}",
                f"calibration errors on real covariates: {real.TITLES[table]}",
                *(experiment, partial(real.summarize_table, table=table), real.draw_grid),
            )
            for table, experiment in TABLES.items()
        ),
    )
}
