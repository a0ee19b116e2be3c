r"""From a fitted classifier to the penalized problem it solved.

:func:`read_fitted` returns a :class:`~angcal.problem.LinearFit` for the library's objective

    J(w, b) = (1/N) Σ_i ω_i ℓ_{y_i}(x_iᵀw + b) + g(w) + ½ q₀ b²,    N = Σ ω_i

Every solver writes that objective with a factor of its own in front; with the same ω,

    LogisticRegression   C Σ ωℓ + ½(1 − r)‖w‖² + r‖w‖₁      strength 1/(N·C)
    LinearSVC            C Σ ωℓ + ½‖w‖² or ‖w‖₁             strength 1/(N·C)
    RidgeClassifier      Σ ω(u − t)² + α‖w‖²                strength α/N
    SGDClassifier        (1/n) Σ ωℓ + α·R(w)                strength α·n/N

where n counts rows. liblinear, the solver of ``LinearSVC`` and of
``LogisticRegression(solver="liblinear")``, penalizes the intercept like one more coefficient b/s
with s = ``intercept_scaling``: q₀ = 1/(N·C·s²).

To read another type, register a function that returns its :class:`Problem`:

    @problem_of.register(MyClassifier)
    def _(estimator):
        return Problem(Logistic(), Ridge(estimator.strength))

The type itself has to carry ``coef_``, ``intercept_`` and ``classes_``, as scikit-learn's do.
"""

from __future__ import annotations

import angcal.sklearn_problems.problem  # noqa: F401  (importing it fills the registry)
from angcal.sklearn_problems.problem import LinearHead, Problem, as_loss, problem_of
from angcal.sklearn_problems.reader import (
    is_joint,
    point_of,
    raw_weights,
    read_fits,
    read_fitted,
    unwrap,
)

__all__ = [
    "LinearHead",
    "Problem",
    "as_loss",
    "is_joint",
    "point_of",
    "problem_of",
    "raw_weights",
    "read_fits",
    "read_fitted",
    "unwrap",
]
