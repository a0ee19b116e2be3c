"""Rows and labels drawn together: `simulate` and the truth it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from angcal._typing import Floats
from angcal.links import Link, as_link
from angcal.simulation.covariances import (
    AutoregressiveCovariance,
    Covariance,
    IdentityCovariance,
)
from angcal.simulation.designs import (
    Seed,
    check_design,
    draw_labels,
    draw_weights,
    positive_integer,
    radius,
    stream,
    vector,
    white_rows,
)

_ENTRIES_PER_CHUNK = 2**22  # 32 MiB of doubles: rows that are only scored are never all held


@dataclass(frozen=True, eq=False)
class Simulation:
    """Rows x, labels P(y = 1 | x) = σ(w*ᵀ(x − mean)), and everything that drew them.

    Attributes
    ----------
    X, y
        The n × d rows and their labels in {0, 1}.
    weights
        w*, with ‖w*‖_Σ = 1.
    link, covariance, design, degrees, mean
        The law of the labels and of the rows.
    signal, probability
        w*ᵀ(x − mean) and σ of it, row by row.

    Notes
    -----
    An integer ``random_state`` means another stream in `simulate` and in each method, so reusing
    the number never reuses rows.

    Examples
    --------
    >>> data = simulate(100, 20, link="logit", random_state=0)
    >>> round(data.cosine(data.weights), 12), round(data.norm(3 * data.weights), 12)
    (1.0, 3.0)
    >>> X_test, y_test = data.sample(500, random_state=1)
    >>> X_test.shape
    (500, 20)
    """

    X: Floats = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    weights: Floats = field(repr=False)
    link: Link
    covariance: Covariance
    design: str
    mean: Floats = field(repr=False)
    signal: Floats = field(repr=False)
    probability: Floats = field(repr=False)
    degrees: float = 5.0

    def _centered(self, n: int, rng: np.random.Generator) -> Floats:
        d = self.covariance.d
        return self.covariance.color(white_rows(self.design, n, d, self.degrees, rng))

    def sample(
        self, n: int, random_state: Seed = None, return_truth: bool = False
    ) -> tuple[NDArray[Any], ...]:
        """(X, y) of n fresh rows from the same truth; (X, y, signal, probability) on request."""
        rng = stream(random_state, purpose=1)
        centered = self._centered(positive_integer("n", n), rng)
        signal = centered @ self.weights
        probability = self.link(signal)
        X, y = centered + self.mean, draw_labels(probability, rng)
        return (X, y, signal, probability) if return_truth else (X, y)

    def pool(self, m: int, random_state: Seed = None) -> Floats:
        """X of m fresh rows without labels."""
        rng = stream(random_state, purpose=2)
        return self._centered(positive_integer("m", m), rng) + self.mean

    def norm(self, coef: ArrayLike) -> float:
        """‖coef‖_Σ."""
        return self.covariance.norm(vector("coef", coef, self.covariance.d))

    def cosine(self, coef: ArrayLike) -> float:
        """⟨w*, coef⟩_Σ / ‖coef‖_Σ, the correlation of signal and score over fresh rows."""
        coef = vector("coef", coef, self.covariance.d)
        norm = self.covariance.norm(coef)
        if norm == 0.0:
            raise ValueError(
                "coef is zero, so its angle to the truth is undefined; regularise less"
            )
        # Rounding may leave a parallel coef a few ulps beyond ±1.
        return float(np.clip(self.weights @ self.covariance.apply(coef) / norm, -1.0, 1.0))

    def calibrated_curve(
        self, scores: ArrayLike, coef: ArrayLike, intercept: float = 0.0
    ) -> Floats:
        """F(u) = E_Z σ(c·(u − shift)/‖coef‖_Σ + √(1−c²)·Z), with shift = coefᵀmean + intercept.

        This is P(y = 1 | xᵀcoef + intercept = u) on fresh rows: exact for the Gaussian design,
        asymptotic in d for the designs with independent entries as long as neither w* nor coef
        rests on a few columns. For the elliptical design it is only what Gaussian rows of the
        same covariance would give.

        Parameters
        ----------
        scores
            Values u of xᵀcoef + intercept.
        coef, intercept
            The fitted score.
        """
        c, norm = self.cosine(coef), self.norm(coef)
        shift = float(np.asarray(coef, dtype=float) @ self.mean) + intercept
        standardized = (np.asarray(scores, dtype=float) - shift) / norm
        return self.link.smooth(c * standardized, np.sqrt(1.0 - c**2))

    def fresh_scores(
        self, coef: ArrayLike, n: int, random_state: Seed = None, intercept: float = 0.0
    ) -> tuple[Floats, Floats]:
        """(xᵀcoef + intercept, w*ᵀ(x − mean)) of n fresh rows, never holding all the rows."""
        coef = vector("coef", coef, self.covariance.d)
        rng, n = stream(random_state, purpose=3), positive_integer("n", n)
        if self.design in ("gaussian", "elliptical"):
            pairs = self._gaussian_pairs(coef, n, rng)
        else:
            pairs = self._coloured_pairs(coef, n, rng)
        return pairs[:, 0] + (coef @ self.mean + intercept), pairs[:, 1]

    def _coloured_pairs(self, coef: Floats, n: int, rng: np.random.Generator) -> Floats:
        # (Z·Lᵀ)v = Z·(Lᵀv): the two directions are coloured once, rather than every row.
        d = self.covariance.d
        loadings = self.covariance.loadings(np.column_stack([coef, self.weights]))
        chunk = max(1, _ENTRIES_PER_CHUNK // d)
        sizes = [min(chunk, n - start) for start in range(0, n, chunk)]
        return np.concatenate(
            [white_rows(self.design, size, d, self.degrees, rng) @ loadings for size in sizes]
        )

    def _gaussian_pairs(self, coef: Floats, n: int, rng: np.random.Generator) -> Floats:
        # Score and signal are jointly normal given the radius, so two normals a row suffice.
        along = float(self.weights @ self.covariance.apply(coef))
        across = np.sqrt(max(self.norm(coef) ** 2 - along**2, 0.0))
        signal, noise = rng.standard_normal((2, n))
        pairs = np.column_stack([along * signal + across * noise, signal])
        if self.design == "elliptical":
            pairs *= radius(n, self.degrees, rng)[:, None]
        return pairs


_COVARIANCES: dict[str, Callable[[int], Covariance]] = {
    "ar": AutoregressiveCovariance,
    "identity": IdentityCovariance,
}


def _resolve_covariance(
    covariance: Covariance | str | None, d: int | None, weights: ArrayLike | None
) -> Covariance:
    if isinstance(covariance, Covariance):
        if d is not None and d != covariance.d:
            raise ValueError(f"d={d} but covariance is for d={covariance.d}; pass one of the two")
        return covariance
    family = "ar" if covariance is None else covariance
    if not isinstance(family, str) or family not in _COVARIANCES:
        raise ValueError(
            f"covariance must be 'ar', 'identity', None or a Covariance object; got {covariance!r}"
            " (wrap a matrix in GivenCovariance)"
        )
    if d is None:
        if weights is None:
            raise ValueError("d is not known; pass d, weights, or a Covariance object")
        d = int(np.size(weights))
    return _COVARIANCES[family](d)


def simulate(
    n: int,
    d: int | None = None,
    *,
    link: Link | Any,
    covariance: Covariance | str | None = None,
    design: str = "gaussian",
    degrees: float = 5.0,
    weights: ArrayLike | None = None,
    n_nonzero: int | None = None,
    mean: ArrayLike | None = None,
    random_state: Seed = None,
) -> Simulation:
    """P(y = 1 | x) = σ(w*ᵀ(x − mean)) with ‖w*‖_Σ = 1, x = mean + a coloured white row.

    Parameters
    ----------
    n, d
        Rows and columns; ``d`` may be left to ``covariance`` or ``weights``.
    link
        σ, as a Link or anything `as_link` takes.
    covariance
        Σ: a Covariance object, ``"ar"`` or None for 0.5^|k−l|/d, ``"identity"`` for I/d.
    design
        ``"gaussian"``; ``"rademacher"``, ``"uniform"`` or ``"student"`` for independent entries
        of that law and unit variance; ``"elliptical"`` for Gaussian rows times a radius r,
        r² = (degrees − 2)/χ² with E r² = 1.
    degrees
        Degrees of freedom of the student entries or of the elliptical radius.
    weights
        The direction of w*; N(0, I) when None. Normalised to ‖w*‖_Σ = 1 either way.
    n_nonzero
        How many entries of a drawn w* to keep; all when None.
    mean
        The mean of x; zero when None.
    random_state
        Seed or numpy Generator.

    Examples
    --------
    >>> from angcal.links import Logit
    >>> data = simulate(1000, 50, link=Logit(scale=3.0, offset=1.0), random_state=0)
    >>> data.X.shape, abs(data.y.mean() - data.probability.mean()) < 0.06
    ((1000, 50), np.True_)
    """
    positive_integer("n", n)
    check_design(design, degrees)
    covariance = _resolve_covariance(covariance, d, weights)
    rng = np.random.default_rng(random_state)
    direction = draw_weights(weights, n_nonzero, covariance.d, rng)
    norm = covariance.norm(direction)
    if norm == 0.0:
        raise ValueError("weights must not all be zero; leave it None to draw them")
    center = np.zeros(covariance.d) if mean is None else vector("mean", mean, covariance.d)
    # The truth first, without rows: its own `sample` then draws them.
    none = np.empty(0)
    truth = Simulation(
        X=np.empty((0, covariance.d)),
        y=np.empty(0, dtype=np.int64),
        weights=direction / norm,
        link=as_link(link),
        covariance=covariance,
        design=design,
        mean=center,
        signal=none,
        probability=none,
        degrees=degrees,
    )
    X, y, signal, probability = truth.sample(n, rng, return_truth=True)
    return replace(truth, X=X, y=y, signal=signal, probability=probability)
