r"""The paper's simulated setting, and what is measured on one draw of it.

x ~ N(0, Σ), Σ_kl = 0.5^|k−l|/d, P(y = 1 | x) = sigmoid(3w*ᵀx + 1), w* ~ N(0, I) scaled to
‖w*‖_Σ = 1; ŵ minimizes (1/n) Σ log-loss + λ‖w‖²/(2d) with λ = 0.5 and no intercept; n = 1000,
d = 2000.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal._typing import Floats, Matrix
from angcal.angle import Angle, combine
from angcal.baselines import PlattScaling
from angcal.calibrate import Calibration, Options, calibrate
from angcal.covariance import Precision
from angcal.curve import angular_probability
from angcal.links import ClippedLinear, Link, Logit, Probit
from angcal.losses import Logistic
from angcal.observables import Observables, observe
from angcal.penalties import Ridge
from angcal.problem import LinearFit
from angcal.simulation import Simulation
from angcal.solvers.minimize import minimize

N_SAMPLES, N_FEATURES, RIDGE = 1000, 2000, 0.5
# The probit link nearest to the paper's: sigmoid(t) ≈ Φ(√(π/8)·t).
PROBIT_UNIT = float(np.sqrt(np.pi / 8.0))
PAPER_LINKS: dict[str, Link] = {
    "sigmoid": Logit(scale=3.0, offset=1.0),
    "probit": Probit(scale=3.0 * PROBIT_UNIT, offset=PROBIT_UNIT),
    "clipped": ClippedLinear(scale=3.0, offset=0.5),
}

# Scores in standard deviations, with the normal law on them. The trapezoidal rule of a smooth
# function times a normal density errs by less than rounding.
NORMAL_NODES = np.linspace(-8.0, 8.0, 2001)
NORMAL_WEIGHTS = np.exp(-0.5 * NORMAL_NODES**2) / np.exp(-0.5 * NORMAL_NODES**2).sum()


def ridge_fit(X: Matrix, y: np.ndarray, strength: float, intercept: bool) -> LinearFit:
    """ŵ = argmin (1/n) Σ log-loss + strength·‖w‖²/(2d), to a tolerance of 1e-7."""
    n, d = X.shape
    start = LinearFit(
        X=X,
        labels=y.astype(float),
        weights=np.ones(n),
        coef=np.zeros(d),
        intercept=0.0,
        loss=Logistic(),
        penalty=Ridge(strength / d),
        fit_intercept=intercept,
    )
    return minimize(start, tol=1e-7)


@dataclass(frozen=True, eq=False)
class FittedDraw:
    """One draw of data, its ridge fit and the fit's observables, computed once for all routes."""

    data: Simulation
    fit: LinearFit
    observables: Observables

    @classmethod
    def of(cls, data: Simulation, strength: float = RIDGE, intercept: bool = False) -> FittedDraw:
        """Fit and observe."""
        fit = ridge_fit(data.X, data.y, strength, intercept)
        return cls(data, fit, observe(fit))

    @property
    def cosine(self) -> float:
        """The true c."""
        return self.data.cosine(self.fit.coef)

    @property
    def norm(self) -> float:
        """‖ŵ‖_Σ."""
        return self.data.norm(self.fit.coef)

    def calibrated(
        self,
        angle: str | float = "auto",
        *,
        link: Link | None = None,
        covariance: Any = "known",
        pool: Any = None,
    ) -> Calibration:
        """The calibrated curve by one route."""
        options = Options(
            link=self.data.link if link is None else link,
            link_known=link is None,
            angle=angle,
            covariance=self.data.covariance if isinstance(covariance, str) else covariance,
            pool=pool,
        )
        ones = np.ones(len(self.fit.labels))
        return calibrate(self.fit, self.observables, ones, options)

    def angles(self) -> dict[str, Angle]:
        """The angle by each route, link and Σ known: what `calibrated` finds, at half the price."""
        observable, loo = self.calibrated("observable").angle, self.calibrated("loo").angle
        # Where the observable route gives up, leave-one-out stands in: nothing is left to weigh.
        both = combine(observable, loo) if observable.method == "observable" else loo
        return {"observable": observable, "loo": loo, "auto": both}

    def labeled(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Scores and labels of n fresh rows."""
        scores, signal = self.data.fresh_scores(self.fit.coef, n, rng, self.fit.intercept)
        return scores, (rng.random(n) < self.data.link(signal)).astype(float)

    def truth(self, scores: Floats) -> Floats:
        """F(u) = P(y = 1 | score = u) by the true angle."""
        return self.data.calibrated_curve(scores, self.fit.coef, self.fit.intercept)


def population_platt(draw: FittedDraw, family: Link | None) -> PlattScaling:
    """Argmin over (A, B) of E[−F log σ(Au+B) − (1−F) log(1−σ(Au+B))], u ~ N(0, ‖ŵ‖²_Σ).

    What Platt scaling with σ of a family tends to with ever more labels: each score counts as
    label 1 with weight F and as label 0 with weight 1 − F.
    """
    positive = angular_probability(draw.data.link, draw.cosine, NORMAL_NODES)
    scores = draw.norm * np.tile(NORMAL_NODES, 2) + draw.fit.intercept
    labels = np.repeat([1.0, 0.0], NORMAL_NODES.size)
    weights = np.concatenate([NORMAL_WEIGHTS * positive, NORMAL_WEIGHTS * (1.0 - positive)])
    return PlattScaling(family).fit(scores, labels, sample_weight=weights)


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
