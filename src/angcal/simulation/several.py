"""Rows and labels of several indices: `simulate_several` and the truth it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from angcal._typing import Floats
from angcal.links.multiclass import CallableSeveral, SeveralLink, Softmax
from angcal.metrics import as_probability_matrix
from angcal.simulation.covariances import Covariance
from angcal.simulation.designs import (
    Seed,
    check_design,
    positive_integer,
    radius,
    stream,
    vector,
    white_rows,
)
from angcal.simulation.model import _ENTRIES_PER_CHUNK, _resolve_covariance

_SLACK = 1e-8  # rounding granted to a correlation matrix


@dataclass(frozen=True, eq=False)
class SeveralSimulation:
    """Rows x, labels P(y = l | x) = g_l(W*(x − mean)), and everything that drew them.

    Attributes
    ----------
    X, y
        The n × d rows and their labels 0, …, L−1.
    weights
        W*, one row for each of the K indices.
    link, covariance, design, degrees, mean
        The law of the labels and of the rows.
    indices, probability
        G = W*(x − mean), of shape (n, K), and g(G), of shape (n, L), row by row.

    Notes
    -----
    An integer ``random_state`` means another stream in `simulate_several` and in each method, so
    reusing the number never reuses rows.

    Examples
    --------
    >>> data = simulate_several(100, 20, n_indices=3, index_correlation=0.5, random_state=0)
    >>> data.index_covariance.round(6)
    array([[1. , 0.5, 0.5],
           [0.5, 1. , 0.5],
           [0.5, 0.5, 1. ]])
    >>> np.allclose(data.cross_covariance(2 * data.weights), data.index_covariance)
    True
    >>> data.fresh(500, random_state=1).X.shape
    (500, 20)
    """

    X: Floats = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    weights: Floats = field(repr=False)
    link: SeveralLink
    covariance: Covariance
    design: str
    mean: Floats = field(repr=False)
    indices: Floats = field(repr=False)
    probability: Floats = field(repr=False)
    degrees: float = 5.0

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
        """‖ŵ_l‖_Σ for each row ŵ_l of coef."""
        return np.linalg.norm(self._loaded(coef), axis=0)

    def score_covariance(self, coef: ArrayLike) -> Floats:
        """R = Cov(S) of the unit scores S = D⁻¹Ŵ(x − mean), D = diag ‖ŵ_l‖_Σ."""
        loaded = self._unit_loadings(coef)
        return loaded.T @ loaded

    def cross_covariance(self, coef: ArrayLike) -> Floats:
        """C = Cov(G, S) = W*ΣŴᵀD⁻¹, of shape (K, number of rows of coef)."""
        return self.covariance.loadings(self.weights.T).T @ self._unit_loadings(coef)

    def fresh(self, n: int, random_state: Seed = None) -> SeveralSimulation:
        """The same truth with n fresh rows."""
        rng = stream(random_state, purpose=1)
        centered = self._centered(positive_integer("n", n), rng)
        indices = centered @ self.weights.T
        probability = self._probability(indices)
        return replace(
            self,
            X=centered + self.mean,
            y=draw_classes(probability, rng),
            indices=indices,
            probability=probability,
        )

    def pool(self, m: int, random_state: Seed = None) -> Floats:
        """X of m fresh rows without labels."""
        rng = stream(random_state, purpose=2)
        return self._centered(positive_integer("m", m), rng) + self.mean

    def fresh_scores(
        self, coef: ArrayLike, n: int, random_state: Seed = None
    ) -> tuple[Floats, Floats]:
        """(S, G) of n fresh rows, never holding all the rows; S as in `score_covariance`."""
        rng, n = stream(random_state, purpose=3), positive_integer("n", n)
        unit = self._unit_loadings(coef)
        both = np.column_stack([unit, self.covariance.loadings(self.weights.T)])
        if self.design in ("gaussian", "elliptical"):
            # Scores and indices are jointly normal given the radius; the triangle of the loadings
            # is a root of their covariance, singular or not.
            triangle = np.linalg.qr(both, mode="r")
            drawn = rng.standard_normal((n, len(triangle))) @ triangle
            if self.design == "elliptical":
                drawn *= radius(n, self.degrees, rng)[:, None]
        else:
            drawn = self._coloured(both, n, rng)
        return drawn[:, : unit.shape[1]], drawn[:, unit.shape[1] :]

    def _coloured(self, loadings: Floats, n: int, rng: np.random.Generator) -> Floats:
        d = self.covariance.d
        chunk = max(1, _ENTRIES_PER_CHUNK // d)
        sizes = [min(chunk, n - start) for start in range(0, n, chunk)]
        return np.concatenate(
            [white_rows(self.design, size, d, self.degrees, rng) @ loadings for size in sizes]
        )

    def _centered(self, n: int, rng: np.random.Generator) -> Floats:
        d = self.covariance.d
        return self.covariance.color(white_rows(self.design, n, d, self.degrees, rng))

    def _probability(self, indices: Floats) -> Floats:
        return as_probability_matrix(self.link(indices), "the link's value")

    def _loaded(self, coef: ArrayLike) -> Floats:
        return self.covariance.loadings(_rows("coef", coef, self.covariance.d).T)

    def _unit_loadings(self, coef: ArrayLike) -> Floats:
        loaded = self._loaded(coef)
        norms = np.linalg.norm(loaded, axis=0)
        if not norms.all():
            raise ValueError(
                f"row {np.argmin(norms)} of coef is zero, so its angles to the truth are "
                "undefined; drop the row or regularise less"
            )
        return loaded / norms


def simulate_several(
    n: int,
    d: int | None = None,
    *,
    link: SeveralLink | str | Callable[[Floats], Any] = "softmax",
    n_indices: int | None = None,
    weights: ArrayLike | None = None,
    signal: ArrayLike | None = None,
    index_correlation: ArrayLike | None = None,
    covariance: Covariance | str | None = None,
    design: str = "gaussian",
    degrees: float = 5.0,
    mean: ArrayLike | None = None,
    random_state: Seed = None,
) -> SeveralSimulation:
    """P(y = l | x) = g_l(G), G = W*(x − mean) in ℝᴷ, x = mean + a coloured white row.

    Parameters
    ----------
    n, d
        Rows and columns; ``d`` may be left to ``covariance`` or ``weights``.
    link
        g: ``"softmax"``, a link of `angcal.links.multiclass`, or a function from (n, K) indices to
        (n, L) class probabilities or to (n,) probabilities of class 1.
    n_indices
        K; may be left to ``weights`` or to a link that knows it.
    weights
        W* of shape (K, d); drawn when None, each row from N(0, I).
    signal
        ‖w*_k‖_Σ, one number or one for each index. None leaves given weights as they are and
        scales drawn ones to one.
    index_correlation
        Correlation of the indices, for drawn weights: one number for all pairs, or a K × K matrix,
        singular ones included. It then holds exactly, not only on average. None leaves the rows
        as drawn, with correlations of order d^-½.
    covariance, design, degrees, mean, random_state
        As in `simulate`.

    Examples
    --------
    >>> from angcal.links.multiclass import TwoLayer
    >>> data = simulate_several(1000, 50, link=TwoLayer((0.7, 0.3)), signal=2.0, random_state=0)
    >>> data.X.shape, data.weights.shape, data.probability.shape
    ((1000, 50), (2, 50), (1000, 2))
    >>> np.sqrt(np.diag(data.index_covariance)).round(12)
    array([2., 2.])
    """
    positive_integer("n", n)
    check_design(design, degrees)
    given = None if weights is None else _rows("weights", weights)
    covariance = _resolve_covariance(covariance, d, None if given is None else given[0])
    K = _count_indices(link, given, n_indices)
    rng = np.random.default_rng(random_state)
    center = np.zeros(covariance.d) if mean is None else vector("mean", mean, covariance.d)
    none = np.empty((0, 0))
    # The truth first, without rows: its own `fresh` then draws them.
    truth = SeveralSimulation(
        X=none,
        y=np.empty(0, dtype=np.int64),
        weights=_truth(given, K, signal, index_correlation, covariance, rng),
        link=_as_several_link(link, K),
        covariance=covariance,
        design=design,
        mean=center,
        indices=none,
        probability=none,
        degrees=degrees,
    )
    return truth.fresh(n, rng)


def draw_classes(probability: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a label 0, …, L−1 for each row of probabilities."""
    cumulative = np.cumsum(probability, axis=1)
    # Scaled to the row's own sum, so that rounding never draws a class of probability zero.
    level = rng.random(len(probability)) * cumulative[:, -1]
    return np.sum(cumulative[:, :-1] <= level[:, None], axis=1, dtype=np.int64)


# --- The truth -------------------------------------------------------------------------------


def _count_indices(link: Any, weights: Floats | None, n_indices: int | None) -> int:
    """Return the K on which weights, n_indices and link agree."""
    said = {}
    if n_indices is not None:
        said["n_indices"] = positive_integer("n_indices", n_indices)
    if weights is not None:
        said["weights"] = len(weights)
    if isinstance(link, SeveralLink):
        said["link"] = int(link.n_indices)
    if not said:
        raise ValueError("the number of indices is not known; pass n_indices or weights")
    if len(set(said.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in said.items())
        raise ValueError(f"the numbers of indices differ: {counts}; make them the same")
    return next(iter(said.values()))


def _as_several_link(link: Any, n_indices: int) -> SeveralLink:
    if isinstance(link, SeveralLink):
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
    # Two rows tell one probability a row from one row of probabilities.
    trial = np.asarray(link(np.zeros((2, n_indices))))
    return CallableSeveral(link, n_indices, 2 if trial.ndim < 2 else trial.shape[1])


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
    if not fits or np.abs(values - values.T).max() > _SLACK:
        raise ValueError(
            f"index_correlation must be one number or a symmetric {size} × {size} matrix; "
            f"got shape {values.shape}"
        )
    eigenvalues, vectors = np.linalg.eigh(values)
    if np.abs(np.diag(values) - 1.0).max() > _SLACK or eigenvalues[0] < -_SLACK:
        raise ValueError(
            "index_correlation must have ones on its diagonal and no negative eigenvalue; its "
            f"lowest is {eigenvalues[0]:.3g} (one number for all pairs: at least "
            f"{-1.0 / max(size - 1, 1):.3g} and at most 1)"
        )
    return (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T


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
