"""The paper's estimator of ⟨w*, ŵ⟩_Σ, as printed, kept for comparison with the library's own."""

from __future__ import annotations

import numpy as np

from angcal.covariance import Precision
from angcal.fitting import LinearFit
from angcal.observables import Observables


def paper_inner_product(
    observables: Observables,
    fit: LinearFit,
    inverse: Precision,
    *,
    gamma: float | None = None,
    deflate: bool = False,
) -> float:
    r"""\|â\| = \|v̂·mean(ũ²) + mean(ψu) − γ̂r̂²\| / √T with ũ = u − γ̂ψ, the paper's eq. (bellec).

    T = ‖Σ^-½Xᵀψ‖²/n² + 2v̂·mean(ψu) + v̂²·mean(ũ²) − (d/n)r̂². NaN where T is not positive.

    Parameters
    ----------
    observables, fit
        One fit and what is observed of it.
    inverse
        Σ⁻¹, known or from a pool.
    gamma
        γ̂; by default df/(n·v̂). The paper prints γ̂ = Tr(XĤXᵀD) = df.
    deflate
        Divide Σ̂⁻¹ by the factor by which a finite pool inflates it, measured on the rows of the
        fit; the paper does not.
    """
    o, n = observables, fit.shape[0]
    step = o.gamma if gamma is None else gamma
    along, squares = inverse.products(fit.X, None, o.residuals)
    factor = inverse.rank / float(np.mean(squares)) if deflate else 1.0
    u, psi, v = o.linear_scores, o.residuals, o.v
    length = float(np.mean((u - step * psi) ** 2))
    fitted = float(np.mean(psi * u))
    numerator = v * length + fitted - step * o.residual_variance
    square = factor * float(psi @ along) / n**2 + 2.0 * v * fitted + v**2 * length
    square -= inverse.rank / n * o.residual_variance
    return abs(numerator) / float(np.sqrt(square)) if square > 0 else float("nan")
