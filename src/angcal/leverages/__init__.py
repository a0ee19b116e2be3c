r"""Leverages of a fit: h_i = x̃_iᵀĤx̃_i, factorized or from sampled rows.

``factorized`` inverts the penalized Hessian exactly, ``sampled`` needs products with X alone, and
``choice`` takes the cheaper one by the sizes in :mod:`angcal.plan`, or the first where the second
does not suffice. ``many`` does the same for many problems on one design.
"""

from __future__ import annotations

from angcal.leverages.choice import HessianOrFallback, factorize
from angcal.leverages.cholesky import SingularHessianError
from angcal.leverages.factorized import PenalizedHessian, outer_gram, weighted_gram
from angcal.leverages.far import FarHessian
from angcal.leverages.many import Leverages, many_leverages
from angcal.leverages.sampled import SampledHessian, Survey
from angcal.solvers.conjugate_gradients import NotConvergedError

__all__ = [
    "FarHessian",
    "HessianOrFallback",
    "Leverages",
    "NotConvergedError",
    "PenalizedHessian",
    "SampledHessian",
    "SingularHessianError",
    "Survey",
    "factorize",
    "many_leverages",
    "outer_gram",
    "weighted_gram",
]
