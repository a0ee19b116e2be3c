r"""Ridge logistic regression by Newton's method with conjugate gradients: products with X alone.

    J(w, b) = Σ_i ω_i log(1 + exp(−ỹ_i u_i)) + ½ q ‖w‖²,   u = Xw + b,  ỹ = ±1

Each Newton step solves (X̃ᵀDX̃ + q·I)δ = −∇J roughly, with the last steps solved better, and goes as
far along δ as J keeps falling; Xδ is at hand, so the search costs no further pass over X. Arrays
may be those of NumPy, a sparse X, or tensors of an array library that follows the array API, on any
device: all that is asked of X is ``X @ V``, ``X.T @ U`` and, for the scaling, its column moments.

scikit-learn's solvers do the same job on the CPU. This one exists because it runs where X is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal.arrays import namespace_of

MOST_NEWTON_STEPS, MOST_CG_STEPS, MOST_HALVINGS = 60, 200, 30
# Share of a Newton step's residual that its solution may leave: loose at first, then tighter.
LARGEST_FORCING = 0.7


@dataclass(frozen=True, eq=False)
class Solution:
    """Where the solver ended.

    Attributes
    ----------
    coef, intercept
        ŵ and b̂.
    scores : array
        Xŵ + b̂.
    gradient : float
        Largest entry of |∇J| over Σω: comparable to scikit-learn's ``tol``.
    newton_steps, passes : int
        Steps, and products with X or its transpose.
    """

    coef: Any
    intercept: float
    scores: Any
    gradient: float
    newton_steps: int
    passes: int


class RidgeLogistic:
    """The problem: X, labels, weights and q; see the module.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or tensor
    labels : (n,) array of 0 and 1, of X's library and type
    weights : (n,) array, positive
    strength : float
        q > 0.
    fit_intercept : bool
    diagonal : (d,) array, optional
        Σ_i ω_i x_ij²/4, by which steps are scaled; computed where it is not given.
    """

    def __init__(
        self,
        X: Any,
        labels: Any,
        weights: Any,
        strength: float,
        fit_intercept: bool,
        diagonal: Any = None,
    ) -> None:
        self.xp = namespace_of(X)
        self.X, self.labels, self.weights = X, labels, weights
        self.strength, self.fit_intercept = float(strength), fit_intercept
        self.moments = column_moments(X, 0.25 * weights) if diagonal is None else diagonal
        self.passes = 0

    def forward(self, v: Any) -> Any:
        """Xv."""
        self.passes += 1
        return self.X @ v

    def backward(self, u: Any) -> Any:
        """Xᵀu."""
        self.passes += 1
        return self.X.T @ u

    def objective(self, u: Any, coef: Any) -> float:
        """J at scores u."""
        xp = self.xp
        # log(1 + e^u) − yu without overflow.
        softplus = xp.log1p(xp.exp(-xp.abs(u))) + xp.clip(u, 0.0, None)
        loss = xp.sum(self.weights * (softplus - self.labels * u))
        return float(loss) + 0.5 * self.strength * float(xp.sum(coef * coef))

    def solve(self, coef: Any = None, intercept: float = 0.0, *, tol: float = 1e-4) -> Solution:
        """Minimise J from a starting point until the mean gradient is at most ``tol``."""
        xp, total = self.xp, float(self.xp.sum(self.weights))
        w = xp.zeros_like(self.moments) if coef is None else coef
        b = float(intercept)
        u = xp.zeros_like(self.labels) + b if coef is None else self.forward(w) + b
        value, steps, size = self.objective(u, w), 0, np.inf
        first = None
        while True:
            p = 1.0 / (1.0 + xp.exp(-u))
            residual = self.weights * (p - self.labels)
            gradient = self.backward(residual) + self.strength * w
            gradient_b = float(xp.sum(residual)) if self.fit_intercept else 0.0
            size = max(float(xp.max(xp.abs(gradient))), abs(gradient_b)) / total
            first = size if first is None else first
            if size <= tol or steps == MOST_NEWTON_STEPS:
                break
            forcing = min(LARGEST_FORCING, max(np.sqrt(size / first), 0.1) * LARGEST_FORCING)
            forcing = max(forcing, min(LARGEST_FORCING, 0.3 * tol / size))
            curvature = self.weights * p * (1.0 - p)
            step, step_b, image = self._newton_step(curvature, gradient, gradient_b, forcing)
            share, moved = 1.0, None
            for _ in range(MOST_HALVINGS):
                moved = self.objective(u + share * image, w + share * step)
                if moved <= value:
                    break
                share *= 0.5
            else:
                break  # rounding leaves nothing to gain
            w, b, u, value = w + share * step, b + share * step_b, u + share * image, moved
            steps += 1
        return Solution(w, b, u, size, steps, self.passes)

    def _newton_step(
        self, curvature: Any, gradient: Any, gradient_b: float, forcing: float
    ) -> tuple[Any, float, Any]:
        """(δ, δ_b, X̃δ) by conjugate gradients, scaled by the Hessian's diagonal."""
        xp = self.xp
        total = float(xp.sum(curvature)) if self.fit_intercept else 1.0
        # D is at most ω/4: its mean share of that scales the moments, which are taken once.
        share = float(xp.sum(curvature)) / float(xp.sum(0.25 * self.weights))
        scale = 1.0 / (share * self.moments + self.strength)
        r, r_b = -gradient, -gradient_b
        z, z_b = scale * r, r_b / total
        slope = float(xp.sum(r * z)) + r_b * z_b
        p, p_b, enough = z, z_b, forcing**2 * slope
        step, step_b, image = xp.zeros_like(r), 0.0, xp.zeros_like(curvature)
        for _ in range(MOST_CG_STEPS):
            Xp = self.forward(p) + p_b
            weighted = curvature * Xp
            Mp = self.backward(weighted) + self.strength * p
            Mp_b = float(xp.sum(weighted)) if self.fit_intercept else 0.0
            length = slope / (float(xp.sum(p * Mp)) + p_b * Mp_b)
            step, step_b, image = step + length * p, step_b + length * p_b, image + length * Xp
            r, r_b = r - length * Mp, r_b - length * Mp_b
            z, z_b = scale * r, (r_b / total if self.fit_intercept else 0.0)
            following = float(xp.sum(r * z)) + r_b * z_b
            if following <= enough:
                break
            p, p_b = z + (following / slope) * p, z_b + (following / slope) * p_b
            slope = following
        return step, step_b, image


def column_moments(X: Any, weights: Any) -> Any:
    """Σ_i ω_i x_ij², in blocks so that no square of X is held."""
    if hasattr(X, "tocsr"):
        return np.asarray(X.multiply(X).T @ weights)
    xp = namespace_of(X)
    n, d = X.shape
    rows = max(1, 2_000_000 // max(d, 1)) if xp is np else n
    if xp is np:
        total = np.zeros(d, dtype=X.dtype)
        for start in range(0, n, rows):
            total += np.square(X[start : start + rows]).T @ weights[start : start + rows]
        return total
    # A sample scales as well as all rows do, and a device has no room for a square of X.
    sample = min(n, 4096)
    stride = max(n // sample, 1)
    part = X[::stride, :]
    share = xp.sum(weights) / xp.sum(weights[::stride])
    return ((part * part).T @ weights[::stride]) * share
