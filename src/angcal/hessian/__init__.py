"""The inverse Ĥ of the penalised Hessian X̃ᵀDX̃ + N∇²g, factorised or by products with X alone."""

from __future__ import annotations

from angcal.hessian.block_cg import NotConvergedError
from angcal.hessian.choice import SMALLEST_RANDOMISED_SIDE, SampledHessian, factorize
from angcal.hessian.exact import (
    BLOCK_ENTRIES,
    PenalizedHessian,
    SingularHessianError,
    outer_gram,
    row_blocks,
    weighted_gram,
)
from angcal.hessian.iterative import IterativeHessian, Survey

__all__ = [
    "BLOCK_ENTRIES",
    "SMALLEST_RANDOMISED_SIDE",
    "IterativeHessian",
    "NotConvergedError",
    "PenalizedHessian",
    "SampledHessian",
    "SingularHessianError",
    "Survey",
    "factorize",
    "outer_gram",
    "row_blocks",
    "weighted_gram",
]
