"""Rows and labels of more than one index: `simulate_multiclass` and the truth it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from angcal._typing import Floats
from angcal.arrays import symmetric_root
from angcal.links.multiclass import CallableMulticlassLink, MulticlassLink, Softmax
from angcal.simulation.covariances import Covariance, Seed, positive_integer
from angcal.simulation.model import Truth, row_law


@dataclass(frozen=True, eq=False)
class MulticlassSimulation(Truth):
    """Rows x, labels P(y = l | x) = g_l(W*(x − mean)), and everything that drew them.

    Attributes
    ----------
    X, y : ndarray of shape (n, d) and (n,)
        The rows and their labels 0, …, L−1.
    weights : ndarray of shape (K, d)
        W*, one row for each of the K indices.
    link, covariance, design, degrees, mean
        The law of the labels and of the rows.
    indices, probability : ndarray of shape (n, K) and (n, L)
        G = W*(x − mean) and g(G), row by row.

    See Also
    --------
    simulate_multiclass : Draws it.

    Notes
    -----
    An integer ``random_state`` means another stream in `simulate_multiclass` and in each method, so
    reusing the number never reuses rows.

    Examples
    --------
    >>> data = simulate_multiclass(100, 20, n_indices=3, index_correlation=0.5, random_state=0)
    >>> data.index_covariance.round(6)
    array([[1. , 0.5, 0.5],
           [0.5, 1. , 0.5],
           [0.5, 0.5, 1. ]])
    >>> np.allclose(data.cross_covariance(2 * data.weights), data.index_covariance)
    True
    >>> data.fresh(500, random_state=1).X.shape
    (500, 20)
    """

    link: MulticlassLink
    indices: Floats = field(repr=False, kw_only=True)

    @property
    def n_indices(self) -> int:
        """K."""
        return len(self.weights)

    @property
    def n_classes(self) -> int:
        """L."""
        return self.link.n_outputs

    @property
    def index_covariance(self) -> Floats:
        """Cov(G) = W*ΣW*ᵀ."""
        loaded = self.covariance.loadings(self.weights.T)
        return loaded.T @ loaded

    def norms(self, coef: ArrayLike) -> Floats:
        """‖ŵ_l‖_Σ for each row ŵ_l of coef.

        Parameters
        ----------
        coef : array-like of shape (J, d)
            Fitted weights.

        Returns
        -------
        ndarray of shape (J,)
            The norms.
        """
        rows = _rows("coef", coef, self.covariance.d)
        return np.linalg.norm(self.covariance.loadings(rows.T), axis=0)

    def score_covariance(self, coef: ArrayLike) -> Floats:
        """R = Cov(S) of the unit scores S = D⁻¹Ŵ(x − mean), D = diag ‖ŵ_l‖_Σ.

        Parameters
        ----------
        coef : array-like of shape (J, d)
            Fitted weights Ŵ, no row zero.

        Returns
        -------
        ndarray of shape (J, J)
            R.
        """
        loaded = self.covariance.loadings(self._unit(coef).T)
        return loaded.T @ loaded

    def cross_covariance(self, coef: ArrayLike) -> Floats:
        """C = Cov(G, S) = W*ΣŴᵀD⁻¹.

        Parameters
        ----------
        coef : array-like of shape (J, d)
            Fitted weights Ŵ, no row zero.

        Returns
        -------
        ndarray of shape (K, J)
            C.
        """
        loaded = self.covariance.loadings(self.weights.T)
        return loaded.T @ self.covariance.loadings(self._unit(coef).T)

    def fresh(self, n: int, random_state: Seed = None) -> MulticlassSimulation:
        """The same truth with fresh rows.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : int, Generator or None
            Seed.

        Returns
        -------
        MulticlassSimulation
            A new object with other rows.
        """
        X, y, indices, probability = self._drawn(n, random_state)
        return replace(self, X=X, y=y, indices=indices, probability=probability)

    def fresh_scores(
        self, coef: ArrayLike, n: int, random_state: Seed = None
    ) -> tuple[Floats, Floats]:
        """(S, G) of fresh rows, never holding all the rows; S as in `score_covariance`.

        Parameters
        ----------
        coef : array-like of shape (J, d)
            Fitted weights, no row zero.
        n : int
            Number of rows.
        random_state : int, Generator or None
            Seed.

        Returns
        -------
        scores, indices : ndarray of shape (n, J) and (n, K)
            Of each row.
        """
        unit = self._unit(coef)
        drawn = self._projected(np.concatenate([unit, self.weights]).T, n, random_state)
        return drawn[:, : len(unit)], drawn[:, len(unit) :]

    def _unit(self, coef: ArrayLike) -> Floats:
        """The rows of coef, each divided by its norm ‖ŵ_l‖_Σ."""
        norms = self.norms(coef)
        if not norms.all():
            raise ValueError(
                f"row {np.argmin(norms)} of coef is zero, so its angles to the truth are "
                "undefined; drop the row or regularize less"
            )
        return np.asarray(coef, dtype=np.float64) / norms[:, None]


def simulate_multiclass(
    n: int,
    d: int | None = None,
    *,
    link: MulticlassLink | str | Callable[[Floats], Any] = "softmax",
    n_indices: int | None = None,
    weights: ArrayLike | None = None,
    signal: ArrayLike | None = None,
    index_correlation: ArrayLike | None = None,
    covariance: Covariance | str | None = None,
    design: str = "gaussian",
    degrees: float = 5.0,
    mean: ArrayLike | None = None,
    random_state: Seed = None,
) -> MulticlassSimulation:
    """P(y = l | x) = g_l(G), G = W*(x − mean) in ℝᴷ, x = mean + a colored white row.

    Parameters
    ----------
    n, d : int
        Rows and columns; ``d`` may be left to ``covariance`` or ``weights``.
    link : MulticlassLink, str or callable, default="softmax"
        g: "softmax", a link of `angcal.links.multiclass`, or a function from (n, K) indices to
        (n, L) class probabilities or to (n,) probabilities of class 1.
    n_indices : int, optional
        K; may be left to ``weights`` or to a link that knows it.
    weights : array-like of shape (K, d), optional
        W*; drawn when None, each row from N(0, I).
    signal : float or array-like of shape (K,), optional
        ‖w*_k‖_Σ. None leaves given weights as they are and scales drawn ones to one.
    index_correlation : float or array-like of shape (K, K), optional
        Correlation of the indices of drawn weights, exact: one number for all pairs, or a matrix,
        possibly singular. None leaves the rows as drawn, with correlations of order d^-½.
    covariance, design, degrees, mean, random_state : optional
        As in `simulate`.

    Returns
    -------
    MulticlassSimulation
        Rows, labels and the truth.

    See Also
    --------
    simulate : One index and two classes.

    Examples
    --------
    >>> data = simulate_multiclass(1000, 50, n_indices=3, signal=2.0, random_state=0)
    >>> data.X.shape, data.weights.shape, data.probability.shape
    ((1000, 50), (3, 50), (1000, 3))
    """
    given = None if weights is None else _rows("weights", weights)
    law = row_law(n, d, covariance, given, design, degrees, mean)
    K, rng = _count_indices(link, given, n_indices), np.random.default_rng(random_state)
    W = _truth(given, K, signal, index_correlation, law["covariance"], rng)
    g = _as_multiclass_link(link, K)
    # Without rows at first: its own `fresh` then draws them.
    none: Any = np.empty(0)
    truth = MulticlassSimulation(none, none, W, g, indices=none, probability=none, **law)
    return truth.fresh(n, rng)


# --- The truth -------------------------------------------------------------------------------


def _count_indices(link: Any, weights: Floats | None, n_indices: int | None) -> int:
    """Return the K on which weights, n_indices and link agree."""
    counts = {}
    if n_indices is not None:
        counts["n_indices"] = positive_integer("n_indices", n_indices)
    if weights is not None:
        counts["weights"] = len(weights)
    if isinstance(link, MulticlassLink):
        counts["link"] = int(link.n_indices)
    if not counts:
        raise ValueError("the number of indices is not known; pass n_indices or weights")
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise ValueError(f"the numbers of indices differ: {listed}; make them the same")
    return next(iter(counts.values()))


def _as_multiclass_link(link: Any, n_indices: int) -> MulticlassLink:
    if isinstance(link, MulticlassLink):
        return link
    if isinstance(link, str):
        if link != "softmax":
            raise ValueError(
                f"link={link!r} is not a known name; pass 'softmax', a link of "
                "angcal.links.multiclass, or a function"
            )
        return Softmax(n_indices)
    if isinstance(link, type) or not callable(link):
        raise TypeError(f"link={link!r} must be 'softmax', a link object or a function of indices")
    # Two rows distinguish one probability per row from one row of probabilities.
    trial = np.asarray(link(np.zeros((2, n_indices))))
    return CallableMulticlassLink(link, n_indices, 2 if trial.ndim < 2 else trial.shape[1])


def _truth(
    given: Floats | None,
    n_indices: int,
    signal: ArrayLike | None,
    index_correlation: ArrayLike | None,
    covariance: Covariance,
    rng: np.random.Generator,
) -> Floats:
    """Return W*: given or drawn, with the norms and correlations asked for."""
    if given is not None:
        if index_correlation is not None:
            raise ValueError(
                "pass weights or index_correlation, not both; weights fix their own correlation"
            )
        weights = _rows("weights", given, covariance.d)
        if not weights.any():
            raise ValueError("weights must not all be zero; leave it None to draw them")
        if signal is None:
            return weights
    elif index_correlation is None:
        weights = rng.standard_normal((n_indices, covariance.d))
    else:
        root = _correlation_root(index_correlation, n_indices)
        weights = root @ _orthonormal_rows(n_indices, covariance, rng)
    norms = np.linalg.norm(covariance.loadings(weights.T), axis=0)
    if not norms.all():
        raise ValueError(
            f"row {np.argmin(norms)} of weights is zero and cannot be scaled to signal={signal!r}; "
            "leave signal None to keep it"
        )
    return weights * (_signal_norms(signal, n_indices) / norms)[:, None]


def _orthonormal_rows(n_indices: int, covariance: Covariance, rng: np.random.Generator) -> Floats:
    """K random rows B with BΣBᵀ = I."""
    if n_indices > covariance.d:
        raise ValueError(
            f"index_correlation needs n_indices <= d; got {n_indices} indices and d={covariance.d}"
        )
    drawn = rng.standard_normal((covariance.d, n_indices))
    triangle = np.linalg.qr(covariance.loadings(drawn), mode="r")
    return solve_triangular(triangle, drawn.T, trans="T")


def _correlation_root(correlation: ArrayLike, size: int) -> Floats:
    """A symmetric root of the correlation matrix, or of the equal correlation of all pairs."""
    values = np.asarray(correlation, dtype=np.float64)
    if values.ndim == 0:
        values = np.where(np.eye(size, dtype=bool), 1.0, values)
    fits = values.shape == (size, size) and np.all(np.isfinite(values))
    if not fits or np.abs(values - values.T).max() > 1e-8:
        raise ValueError(
            f"index_correlation must be one number or a symmetric {size} × {size} matrix; "
            f"got shape {values.shape}"
        )
    lowest = np.linalg.eigvalsh(values)[0]
    if np.abs(np.diag(values) - 1.0).max() > 1e-8 or lowest < -1e-8:
        raise ValueError(
            "index_correlation must have ones on its diagonal and no negative eigenvalue; its "
            f"lowest is {lowest:.3g} (one number for all pairs: at least "
            f"{-1.0 / max(size - 1, 1):.3g} and at most 1)"
        )
    return symmetric_root(values)


def _signal_norms(signal: ArrayLike | None, n_indices: int) -> Floats:
    values = np.asarray(1.0 if signal is None else signal, dtype=np.float64)
    if values.shape not in ((), (n_indices,)) or not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(
            f"signal must be one positive number or {n_indices} of them; got {signal!r}"
        )
    return np.broadcast_to(values, (n_indices,))


def _rows(name: str, value: ArrayLike, d: int | None = None) -> Floats:
    """Return `value` as rows of d finite numbers, or say which shape it has."""
    rows = np.asarray(value, dtype=np.float64)
    fits = rows.ndim == 2 and rows.size > 0 and d in (None, rows.shape[1])
    if not fits or not np.all(np.isfinite(rows)):
        columns = "d" if d is None else d
        raise ValueError(
            f"{name} must hold rows of {columns} finite numbers, one row for each index; "
            f"got shape {rows.shape} (a coef_ has this form)"
        )
    return rows
