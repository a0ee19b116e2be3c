r"""Leave-one-out scores of several classes, from one fit.

    Ṽ_i = V_i − Γ_i ψ_i,   Γ_i = G_i (I − D_i G_i)⁻¹

approximates the scores of row i under the fit without it. Calibration asks for the score at the
intercept that will be used. Around the D-weighted mean of the rows slopes and intercept decouple,
G_i = G_i^slopes + T with T = (Σ D)⁻¹, and (I − D_iG_i)⁻¹ = I + D_iΓ_i, so

    Z̃_i = V_i − Γ_i ψ_i + T (I + D_i Γ_i) ψ_i

One-vs-rest heads are separate binary fits: each head's scores come from its own observables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from angcal._typing import Floats
from angcal.several.block_hessian import row_blocks
from angcal.several.multinomial import MultinomialFit


@dataclass(frozen=True, eq=False)
class SeveralObservables:
    """What one multinomial fit reveals about itself.

    Attributes
    ----------
    scores, residuals : (n, q) arrays
        V_i and ψ_i.
    curvatures : (n, q, q) array
        D_i.
    steps : (n, q, q) array
        Γ_i.
    score_step : (n, q) array
        By how much the scores would move in one Newton step.
    intercept_leverage : (q, q) array
        T; zero without an intercept.
    n_features : int
    side : {"exact", "randomised"}
    step_error : float
        Standard error of Γ as a share of it.
    """

    scores: Floats
    residuals: Floats
    curvatures: Floats
    steps: Floats
    score_step: Floats
    intercept_leverage: Floats
    n_features: int
    side: str
    step_error: float

    @property
    def n_samples(self) -> int:
        """n."""
        return len(self.scores)

    @cached_property
    def loo_scores(self) -> Floats:
        """Ṽ_i."""
        return self.scores - np.einsum("nab,nb->na", self.steps, self.residuals)

    @cached_property
    def calibration_scores(self) -> Floats:
        """Z̃_i: scores of row i under weights that have not seen it, at the fitted intercept."""
        step = np.einsum("nab,nb->na", self.steps, self.residuals)
        push = self.residuals + np.einsum("nab,nb->na", self.curvatures, step)
        return self.scores - step + push @ self.intercept_leverage.T

    @cached_property
    def leverage_shares(self) -> Floats:
        """Tr(G_iD_i) of every row, G = Γ(I + DΓ)⁻¹: its share of the degrees of freedom."""
        identity = np.eye(self.steps.shape[-1])
        product = self.curvatures @ self.steps
        return np.trace(np.linalg.solve(identity + product, product), axis1=1, axis2=2)

    @property
    def degrees_of_freedom(self) -> float:
        """Σ Tr(G_iD_i)."""
        return float(self.leverage_shares.sum())

    @property
    def distance_to_optimum(self) -> float:
        """rms of the Newton step over the spread of the scores."""
        spread = float(np.sqrt(np.sum(self.scores.var(axis=0))))
        rms = float(np.sqrt(np.mean(np.sum(self.score_step**2, axis=1))))
        return 0.0 if rms == 0 else rms / max(spread, np.finfo(float).tiny)


def observe_several(fit: MultinomialFit, method: str = "auto") -> SeveralObservables:
    """Observables of a multinomial fit; ``method`` as in `row_blocks`."""
    blocks = row_blocks(fit, method)
    total = fit.curvatures.sum(axis=0)
    leverage = np.linalg.pinv(total, hermitian=True) if fit.fit_intercept else np.zeros_like(total)
    return SeveralObservables(
        scores=fit.scores,
        residuals=fit.residuals,
        curvatures=fit.curvatures,
        steps=blocks.steps,
        score_step=blocks.score_step,
        intercept_leverage=leverage,
        n_features=fit.X.shape[1],
        side=blocks.side,
        step_error=blocks.relative_error,
    )
