"""Rows and labels of one index: `simulate`, `simulate_labels` and the truths they return."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from angcal._typing import Floats, Matrix
from angcal.arrays import slices
from angcal.links import Link, as_link
from angcal.simulation.covariances import (
    AutoregressiveCovariance,
    Covariance,
    IdentityCovariance,
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
class Truth:
    """x = mean + a colored white row, with labels by a link of W*(x − mean): one index or more."""

    X: Floats = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    weights: Floats = field(repr=False)
    link: Any
    covariance: Covariance
    design: str
    mean: Floats = field(repr=False)
    probability: Floats = field(repr=False)
    degrees: float = 5.0

    def pool(self, m: int, random_state: Seed = None) -> Floats:
        """X of fresh rows without labels.

        Parameters
        ----------
        m : int
            Number of rows.
        random_state : int, Generator or None
            Seed.

        Returns
        -------
        ndarray of shape (m, d)
            The rows.
        """
        rng = stream(random_state, purpose=2)
        return self._centered(positive_integer("m", m), rng) + self.mean

    def _centered(self, n: int, rng: np.random.Generator) -> Floats:
        d = self.covariance.d
        return self.covariance.color(white_rows(self.design, n, d, self.degrees, rng))

    def _drawn(self, n: int, random_state: Seed) -> tuple[Any, Any, Any, Any]:
        """Rows, labels, indices and probabilities of n fresh rows."""
        rng = stream(random_state, purpose=1)
        centered = self._centered(positive_integer("n", n), rng)
        indices = centered @ self.weights.T
        probability = self.link(indices)
        return centered + self.mean, draw_labels(probability, rng), indices, probability

    def _projected(self, directions: Floats, n: int, random_state: Seed) -> Floats:
        """(x − mean)ᵀv for the columns v of `directions`, never holding all the rows."""
        rng, n = stream(random_state, purpose=3), positive_integer("n", n)
        if self.design in ("gaussian", "elliptical"):
            drawn = self._normal(directions, n, rng)
            if self.design == "elliptical":
                drawn *= radius(n, self.degrees, rng)[:, None]
            return drawn
        # (Z·Lᵀ)v = Z·(Lᵀv): the directions are colored once, rather than every row.
        loadings, d = self.covariance.loadings(directions), self.covariance.d
        sizes = [chunk.stop - chunk.start for chunk in slices(n, _ENTRIES_PER_CHUNK, d)]
        return np.concatenate(
            [white_rows(self.design, size, d, self.degrees, rng) @ loadings for size in sizes]
        )

    def _normal(self, directions: Floats, n: int, rng: np.random.Generator) -> Floats:
        """The same of normal rows, with a few normals a row: their covariance is known."""
        # The triangle of the loadings is a root of that covariance, singular or not.
        triangle = np.linalg.qr(self.covariance.loadings(directions), mode="r")
        return rng.standard_normal((n, len(triangle))) @ triangle


@dataclass(frozen=True, eq=False)
class Simulation(Truth):
    """Rows x, labels P(y = 1 | x) = σ(w*ᵀ(x − mean)), and everything that drew them.

    Attributes
    ----------
    X, y : ndarray of shape (n, d) and (n,)
        The rows and their labels in {0, 1}.
    weights : ndarray of shape (d,)
        w*, with ‖w*‖_Σ = 1.
    link, covariance, design, degrees, mean
        The law of the labels and of the rows.
    signal, probability : ndarray of shape (n,)
        w*ᵀ(x − mean) and σ of it, row by row.

    See Also
    --------
    simulate : Draws it.

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

    link: Link
    signal: Floats = field(repr=False, kw_only=True)

    def sample(
        self, n: int, random_state: Seed = None, return_truth: bool = False
    ) -> tuple[NDArray[Any], ...]:
        """(X, y) of fresh rows from the same truth; (X, y, signal, probability) on request.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : int, Generator or None
            Seed.
        return_truth : bool, default=False
            Return signal and probability too.

        Returns
        -------
        tuple of ndarray
            Two or four arrays of n rows.
        """
        drawn = self._drawn(n, random_state)
        return drawn if return_truth else drawn[:2]

    def norm(self, coef: ArrayLike) -> float:
        """‖coef‖_Σ.

        Parameters
        ----------
        coef : array-like of shape (d,)
            Weights.

        Returns
        -------
        float
            Their norm.
        """
        return self.covariance.norm(vector("coef", coef, self.covariance.d))

    def cosine(self, coef: ArrayLike) -> float:
        """⟨w*, coef⟩_Σ / ‖coef‖_Σ, the correlation of signal and score over fresh rows.

        Parameters
        ----------
        coef : array-like of shape (d,)
            Fitted weights, not zero.

        Returns
        -------
        float
            The cosine, in [−1, 1].
        """
        coef = vector("coef", coef, self.covariance.d)
        norm = self.covariance.norm(coef)
        if norm == 0.0:
            raise ValueError(
                "coef is zero, so its angle to the truth is undefined; regularize less"
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
        scores : array-like
            Values u of xᵀcoef + intercept.
        coef : array-like of shape (d,)
            Fitted weights.
        intercept : float, default=0.0
            Fitted intercept.

        Returns
        -------
        ndarray
            Probabilities, in the shape of `scores`.
        """
        c, norm = self.cosine(coef), self.norm(coef)
        shift = float(np.asarray(coef, dtype=float) @ self.mean) + intercept
        standardized = (np.asarray(scores, dtype=float) - shift) / norm
        return self.link.smooth(c * standardized, np.sqrt(1.0 - c**2))

    def fresh_scores(
        self, coef: ArrayLike, n: int, random_state: Seed = None, intercept: float = 0.0
    ) -> tuple[Floats, Floats]:
        """(xᵀcoef + intercept, w*ᵀ(x − mean)) of fresh rows, never holding all the rows.

        Parameters
        ----------
        coef : array-like of shape (d,)
            Fitted weights.
        n : int
            Number of rows.
        random_state : int, Generator or None
            Seed.
        intercept : float, default=0.0
            Fitted intercept.

        Returns
        -------
        scores, signal : ndarray of shape (n,)
            Of each row.
        """
        coef = vector("coef", coef, self.covariance.d)
        pairs = self._projected(np.column_stack([coef, self.weights]), n, random_state)
        return pairs[:, 0] + (coef @ self.mean + intercept), pairs[:, 1]

    def _normal(self, directions: Floats, n: int, rng: np.random.Generator) -> Floats:
        coef = directions[:, 0]
        along = float(self.weights @ self.covariance.apply(coef))
        across = np.sqrt(max(self.norm(coef) ** 2 - along**2, 0.0))
        signal, noise = rng.standard_normal((2, n))
        return np.column_stack([along * signal + across * noise, signal])


def row_law(
    n: int,
    d: int | None,
    covariance: Covariance | str | None,
    weights: ArrayLike | None,
    design: str,
    degrees: float,
    mean: ArrayLike | None,
) -> dict[str, Any]:
    """Return the checked covariance, mean, design and degrees of a simulation's rows."""
    positive_integer("n", n)
    check_design(design, degrees)
    if not isinstance(covariance, Covariance):
        family = "ar" if covariance is None else covariance
        named = isinstance(family, str)
        if not named or family not in ("ar", "identity"):
            raise ValueError(
                "covariance must be 'ar', 'identity', None or a Covariance object; got "
                f"{covariance!r} (wrap a matrix in GivenCovariance)"
            )
        if d is None:
            if weights is None:
                raise ValueError("d is not known; pass d, weights, or a Covariance object")
            d = int(np.shape(np.atleast_1d(weights))[-1])
        covariance = AutoregressiveCovariance(d) if family == "ar" else IdentityCovariance(d)
    if d is not None and d != covariance.d:
        raise ValueError(f"d={d} but covariance is for d={covariance.d}; pass one of the two")
    center = np.zeros(covariance.d) if mean is None else vector("mean", mean, covariance.d)
    return {"covariance": covariance, "design": design, "degrees": degrees, "mean": center}


def _unit(direction: Floats, covariance: Covariance) -> Floats:
    """Weights divided by their norm ‖w‖_Σ."""
    if not direction.any():
        raise ValueError("weights must not all be zero; leave it None to draw them")
    return direction / covariance.norm(direction)


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
    """P(y = 1 | x) = σ(w*ᵀ(x − mean)) with ‖w*‖_Σ = 1, x = mean + a colored white row.

    Parameters
    ----------
    n, d : int
        Rows and columns; ``d`` may be left to ``covariance`` or ``weights``.
    link : Link, str or callable
        σ, as a Link or anything `as_link` takes.
    covariance : Covariance or str, optional
        Σ: a Covariance object, "ar" or None for 0.5^|k−l|/d, "identity" for I/d.
    design, degrees : str and float, default="gaussian" and 5.0
        "gaussian"; "rademacher", "uniform" or "student" for independent entries of that law and
        unit variance; "elliptical" for Gaussian rows times a radius r, r² = (degrees − 2)/χ² with
        E r² = 1. The degrees of freedom are those of the student entries or of the radius.
    weights : array-like of shape (d,), optional
        The direction of w*; N(0, I) when None. Normalized to ‖w*‖_Σ = 1 either way.
    n_nonzero : int, optional
        How many entries of a drawn w* to keep; all when None.
    mean : array-like of shape (d,), optional
        The mean of x; zero when None.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Simulation
        Rows, labels and the truth.

    See Also
    --------
    simulate_multiclass, simulate_labels : Any number of classes; labels on given rows.

    Examples
    --------
    >>> data = simulate(1000, 50, link="logit", random_state=0)
    >>> data.X.shape, abs(data.y.mean() - data.probability.mean()) < 0.06
    ((1000, 50), np.True_)
    """
    law = row_law(n, d, covariance, weights, design, degrees, mean)
    rng = np.random.default_rng(random_state)
    unit = _unit(draw_weights(weights, n_nonzero, law["covariance"].d, rng), law["covariance"])
    # The truth first, without rows: its own `sample` then draws them.
    none: Any = np.empty(0)
    truth = Simulation(none, none, unit, as_link(link), signal=none, probability=none, **law)
    X, y, signal, probability = truth.sample(n, rng, return_truth=True)
    return replace(truth, X=X, y=y, signal=signal, probability=probability)


@dataclass(frozen=True, eq=False)
class SimulatedLabels:
    """Labels P(y = 1 | x) = σ(w*ᵀ(x − mean)) drawn on rows that were given.

    Attributes
    ----------
    y, signal, probability : ndarray of shape (n,)
        Label, w*ᵀ(x − mean) and σ of it, row by row.
    weights, mean : ndarray of shape (d,)
        w* and the column means, so that the truth on any row is known.
    link : Link
        σ.

    See Also
    --------
    simulate_labels : Draws them.

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(200, 5))
    >>> labels = simulate_labels(X, link="logit", random_state=0)
    >>> np.allclose(labels.link((X - labels.mean) @ labels.weights), labels.probability)
    True
    """

    y: NDArray[np.int64]
    signal: Floats
    probability: Floats
    weights: Floats
    mean: Floats
    link: Link


def simulate_labels(
    X: Matrix,
    *,
    link: Link | Any,
    weights: ArrayLike | None = None,
    n_nonzero: int | None = None,
    standardize: bool = False,
    random_state: Seed = None,
) -> SimulatedLabels:
    """P(y = 1 | x) = σ(w*ᵀ(x − mean)) on real rows, with w*ᵀ(x − mean) of variance one on them.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        All the rows at hand: their mean and variance define the truth.
    link : Link, str or callable
        σ, as a Link or anything `as_link` takes.
    weights, n_nonzero : array-like and int, optional
        As in `simulate`.
    standardize : bool, default=False
        Whether a drawn w* ~ N(0, I) is for columns divided by their standard deviation, so that
        no column dominates by its unit. Given ``weights`` are for the columns as they are.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    SimulatedLabels
        Labels and the truth.

    See Also
    --------
    simulate : Draws the rows as well.

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(200, 5))
    >>> round(float(simulate_labels(X, link="logit", random_state=0).signal.var()), 12)
    1.0
    """
    X = check_array(X, accept_sparse=("csr", "csc"), dtype=np.float64)
    link = as_link(link)
    rng = np.random.default_rng(random_state)
    direction = draw_weights(weights, n_nonzero, X.shape[1], rng)
    if standardize and weights is None:
        direction = direction / StandardScaler(with_mean=False).fit(X).scale_
    mean = np.asarray(X.mean(axis=0), dtype=float).ravel()
    raw = X @ direction
    deviation = raw.std()
    # Rounding alone leaves a constant score with a deviation of a few ulps of its size.
    if deviation <= 1e-12 * np.abs(raw).max():
        raise ValueError("the score X @ weights is constant on these rows; drop constant columns")
    signal = (raw - mean @ direction) / deviation
    probability = link(signal)
    y = draw_labels(probability, rng)
    return SimulatedLabels(y, signal, probability, direction / deviation, mean, link)
