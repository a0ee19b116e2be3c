"""Data whose truth is known: P(y = 1 | x) = σ(w*ᵀ(x − mean)) with ‖w*‖_Σ = 1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve
from scipy.signal import lfilter
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from angcal._typing import Floats, Matrix
from angcal.links import Link, as_link

__all__ = [
    "DESIGNS",
    "AutoregressiveCovariance",
    "Covariance",
    "GivenCovariance",
    "IdentityCovariance",
    "SimulatedLabels",
    "Simulation",
    "SpikedCovariance",
    "simulate",
    "simulate_labels",
]

DESIGNS = ("gaussian", "rademacher", "uniform", "student", "elliptical")
"""The laws a row can have before it is coloured by the covariance."""

_ENTRIES_PER_CHUNK = 2**22  # 32 MiB of doubles: rows that are only scored are never all held

Seed = int | np.random.Generator | None


def _stream(random_state: Seed, purpose: int) -> np.random.Generator:
    # Were the integer used as it is, `simulate(n, random_state=0).sample(n, random_state=0)`
    # would hand the training rows out again as test rows.
    if isinstance(random_state, Integral):
        return np.random.default_rng([int(random_state), purpose])
    return np.random.default_rng(random_state)


def _positive_integer(name: str, value: object) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1; got {value!r}")
    return int(value)


def _vector(name: str, value: ArrayLike, d: int) -> Floats:
    vector = np.asarray(value, dtype=float)
    if vector.shape != (d,) or not np.all(np.isfinite(vector)):
        raise ValueError(
            f"{name} must hold {d} finite numbers, one per column; got shape {vector.shape}"
            " (np.ravel a coef_ of shape (1, d))"
        )
    return vector


class Covariance(ABC):
    """Σ = variance · C, described by what it does to vectors rather than by its d² entries.

    ``variance=None`` stands for 1/d, which keeps ‖x‖² of order one as d grows. A subclass says
    what C does in ``_apply``, ``_solve`` and ``_color``.

    Examples
    --------
    >>> issubclass(IdentityCovariance, Covariance)
    True
    """

    d: int
    variance: float | None

    def __post_init__(self) -> None:
        _positive_integer("d", self.d)
        if self.variance is not None and not 0 < self.variance < np.inf:
            raise ValueError(
                f"variance must be positive and finite, or None for 1/d; got {self.variance!r}"
            )

    @abstractmethod
    def _apply(self, v: Floats) -> Floats: ...

    @abstractmethod
    def _solve(self, v: Floats) -> Floats: ...

    @abstractmethod
    def _color(self, Z: Floats) -> Floats: ...

    @property
    def scale(self) -> float:
        """The factor in front of C: ``variance``, or 1/d where that is None."""
        return 1.0 / self.d if self.variance is None else float(self.variance)

    def matrix(self) -> Floats:
        """Σ as a dense d × d array, formed here and nowhere else."""
        return self.apply(np.eye(self.d))

    def apply(self, v: Floats) -> Floats:
        """Σv, for v of shape (d,) or (d, k)."""
        return self.scale * self._apply(v)

    def solve(self, v: Floats) -> Floats:
        """Σ⁻¹v, for v of shape (d,) or (d, k)."""
        return self._solve(v) / self.scale

    def color(self, Z: Floats) -> Floats:
        """Z·Lᵀ with LLᵀ = Σ: white rows of shape (n, d) in, rows of covariance Σ out."""
        return np.sqrt(self.scale) * self._color(Z)

    def norm(self, w: Floats) -> float:
        """‖w‖_Σ = √(wᵀΣw)."""
        return float(np.sqrt(w @ self.apply(w)))


@dataclass(frozen=True)
class IdentityCovariance(Covariance):
    """Σ = variance · I, with variance 1/d unless given.

    Examples
    --------
    >>> IdentityCovariance(4).norm(np.ones(4))
    1.0
    """

    d: int
    variance: float | None = None

    def _apply(self, v: Floats) -> Floats:
        return v

    def _solve(self, v: Floats) -> Floats:
        return v

    def _color(self, Z: Floats) -> Floats:
        return Z


@dataclass(frozen=True)
class AutoregressiveCovariance(Covariance):
    """Σ_kl = variance · ρ^|k−l|, with variance 1/d unless given; every product is O(d).

    Examples
    --------
    >>> AutoregressiveCovariance(2, rho=0.5, variance=1.0).matrix()
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    d: int
    rho: float = 0.5
    variance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -1 < self.rho < 1:
            raise ValueError(f"rho must lie strictly between -1 and 1; got {self.rho!r}")

    def _accumulate(self, v: Floats, axis: int) -> Floats:
        # The recursion out_k = ρ·out_{k−1} + v_k.
        return lfilter([1.0], [1.0, -self.rho], v, axis=axis)

    def _apply(self, v: Floats) -> Floats:
        # One pass from each end; together they count the diagonal twice.
        return self._accumulate(v, 0) + self._accumulate(v[::-1], 0)[::-1] - v

    def _solve(self, v: Floats) -> Floats:
        # The inverse of an AR(1) covariance is tridiagonal.
        out = (1 + self.rho**2) * v
        out[1:] -= self.rho * v[:-1]
        out[:-1] -= self.rho * v[1:]
        # An end has one neighbour only, so its diagonal entry is 1; when d = 1 the one entry
        # is both ends.
        out[0] -= self.rho**2 * v[0]
        out[-1] -= self.rho**2 * v[-1]
        return out / (1 - self.rho**2)

    def _color(self, Z: Floats) -> Floats:
        # x_k = ρ·x_{k−1} + √(1−ρ²)·z_k, started in stationarity. The paper colours non-Gaussian
        # entries by the symmetric root Σ^{1/2}; this is the Cholesky root, another law for
        # those but the same covariance, and O(nd) to apply.
        innovations = np.sqrt(1 - self.rho**2) * Z
        innovations[:, 0] = Z[:, 0]
        return self._accumulate(innovations, 1)


@dataclass(frozen=True, eq=False)
class SpikedCovariance(Covariance):
    """Σ = variance · (I + Σ_j s_j u_j u_jᵀ), u_j random orthonormal, variance 1/d unless given.

    Examples
    --------
    >>> covariance = SpikedCovariance(50, spikes=(9.0, 4.0), variance=1.0, random_state=0)
    >>> np.linalg.eigvalsh(covariance.matrix())[-3:].round(6)
    array([ 1.,  5., 10.])
    """

    d: int
    spikes: tuple[float, ...] = (10.0,)
    variance: float | None = None
    random_state: Seed = None
    directions: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.spikes) > self.d or not all(-1 < s < np.inf for s in self.spikes):
            raise ValueError(
                f"spikes must hold at most d={self.d} finite numbers above -1"
                f" (an eigenvalue is 1 + spike); got {self.spikes!r}"
            )
        rng = np.random.default_rng(self.random_state)
        gaussian = rng.standard_normal((self.d, len(self.spikes)))
        object.__setattr__(self, "directions", np.linalg.qr(gaussian)[0])

    def _power(self, v: Floats, exponent: float) -> Floats:
        # C^exponent·v: off the spiked directions C is the identity, whatever the exponent.
        gain = (1 + np.asarray(self.spikes, dtype=float)) ** exponent - 1
        return v + (self.directions * gain) @ (self.directions.T @ v)

    def _apply(self, v: Floats) -> Floats:
        return self._power(v, 1.0)

    def _solve(self, v: Floats) -> Floats:
        return self._power(v, -1.0)

    def _color(self, Z: Floats) -> Floats:
        return self._power(Z.T, 0.5).T


@dataclass(frozen=True, eq=False)
class GivenCovariance(Covariance):
    """Σ = variance · base; ``variance=1.0`` takes ``base`` as it is, the default divides by d.

    Examples
    --------
    >>> GivenCovariance(np.diag([1.0, 4.0]), variance=1.0).norm(np.array([0.0, 1.0]))
    2.0
    """

    base: Floats
    variance: float | None = None
    d: int = field(init=False)
    factor: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        base = np.array(self.base, dtype=float)
        if base.ndim != 2 or base.shape[0] != base.shape[1] or base.size == 0:
            raise ValueError(f"base must be a square matrix; got shape {base.shape}")
        asymmetry = np.abs(base - base.T).max()
        # The negated comparison also catches entries that are not finite.
        if not asymmetry <= 1e-10 * np.abs(base).max() < np.inf:
            raise ValueError(
                f"base must be finite and symmetric; its largest asymmetry is {asymmetry:.3g}"
                " (pass (base + base.T) / 2)"
            )
        try:
            factor = np.linalg.cholesky(base)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                "base must be positive definite; add a small multiple of the identity"
            ) from error
        for name, value in {"base": base, "d": len(base), "factor": factor}.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    def _apply(self, v: Floats) -> Floats:
        return self.base @ v

    def _solve(self, v: Floats) -> Floats:
        return cho_solve((self.factor, True), v)

    def _color(self, Z: Floats) -> Floats:
        return Z @ self.factor.T


def _check_design(design: str, degrees: float) -> None:
    if design not in DESIGNS:
        raise ValueError(f"design must be one of {', '.join(DESIGNS)}; got {design!r}")
    if not 2 < degrees < np.inf:
        raise ValueError(
            f"degrees must be finite and above 2, or the variance is infinite; got {degrees!r}"
        )


def _radius(n: int, degrees: float, rng: np.random.Generator) -> Floats:
    # r² = (ν − 2)/χ²_ν has mean one and makes r·Gaussian a multivariate t of covariance Σ.
    return np.sqrt((degrees - 2) / rng.chisquare(degrees, n))


def _white_rows(design: str, n: int, d: int, degrees: float, rng: np.random.Generator) -> Floats:
    if design == "rademacher":
        return rng.choice(np.array([-1.0, 1.0]), (n, d))
    if design == "uniform":
        return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (n, d))
    if design == "student":
        return np.sqrt((degrees - 2) / degrees) * rng.standard_t(degrees, (n, d))
    rows = rng.standard_normal((n, d))
    if design == "elliptical":
        rows *= _radius(n, degrees, rng)[:, None]
    return rows


def _draw_weights(
    weights: ArrayLike | None, n_nonzero: int | None, d: int, rng: np.random.Generator
) -> Floats:
    if weights is not None:
        if n_nonzero is not None:
            raise ValueError("pass weights or n_nonzero, not both; weights fixes its own zeros")
        return _vector("weights", weights, d)
    drawn = rng.standard_normal(d)
    if n_nonzero is not None:
        if _positive_integer("n_nonzero", n_nonzero) > d:
            raise ValueError(f"n_nonzero must be at most d={d}; got {n_nonzero}")
        drawn[rng.permutation(d)[n_nonzero:]] = 0.0
    return drawn


def _draw_labels(probability: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    return (rng.random(probability.shape) < probability).astype(np.int64)


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
        return self.covariance.color(_white_rows(self.design, n, d, self.degrees, rng))

    def sample(
        self, n: int, random_state: Seed = None, return_truth: bool = False
    ) -> tuple[NDArray[Any], ...]:
        """(X, y) of n fresh rows from the same truth; (X, y, signal, probability) on request."""
        rng = _stream(random_state, purpose=1)
        centered = self._centered(_positive_integer("n", n), rng)
        signal = centered @ self.weights
        probability = self.link(signal)
        X, y = centered + self.mean, _draw_labels(probability, rng)
        return (X, y, signal, probability) if return_truth else (X, y)

    def pool(self, m: int, random_state: Seed = None) -> Floats:
        """X of m fresh rows without labels."""
        rng = _stream(random_state, purpose=2)
        return self._centered(_positive_integer("m", m), rng) + self.mean

    def norm(self, coef: ArrayLike) -> float:
        """‖coef‖_Σ."""
        return self.covariance.norm(_vector("coef", coef, self.covariance.d))

    def cosine(self, coef: ArrayLike) -> float:
        """⟨w*, coef⟩_Σ / ‖coef‖_Σ, the correlation of signal and score over fresh rows."""
        coef = _vector("coef", coef, self.covariance.d)
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
        coef = _vector("coef", coef, self.covariance.d)
        rng, n = _stream(random_state, purpose=3), _positive_integer("n", n)
        if self.design in ("gaussian", "elliptical"):
            pairs = self._gaussian_pairs(coef, n, rng)
        else:
            directions = np.column_stack([coef, self.weights])
            chunk = max(1, _ENTRIES_PER_CHUNK // self.covariance.d)
            sizes = [min(chunk, n - start) for start in range(0, n, chunk)]
            pairs = np.concatenate([self._centered(size, rng) @ directions for size in sizes])
        return pairs[:, 0] + (coef @ self.mean + intercept), pairs[:, 1]

    def _gaussian_pairs(self, coef: Floats, n: int, rng: np.random.Generator) -> Floats:
        # Score and signal are jointly normal given the radius, so two normals a row suffice.
        along = float(self.weights @ self.covariance.apply(coef))
        across = np.sqrt(max(self.norm(coef) ** 2 - along**2, 0.0))
        signal, noise = rng.standard_normal((2, n))
        pairs = np.column_stack([along * signal + across * noise, signal])
        if self.design == "elliptical":
            pairs *= _radius(n, self.degrees, rng)[:, None]
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
    _positive_integer("n", n)
    _check_design(design, degrees)
    covariance = _resolve_covariance(covariance, d, weights)
    rng = np.random.default_rng(random_state)
    direction = _draw_weights(weights, n_nonzero, covariance.d, rng)
    norm = covariance.norm(direction)
    if norm == 0.0:
        raise ValueError("weights must not all be zero; leave it None to draw them")
    center = np.zeros(covariance.d) if mean is None else _vector("mean", mean, covariance.d)
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


@dataclass(frozen=True, eq=False)
class SimulatedLabels:
    """Labels P(y = 1 | x) = σ(w*ᵀ(x − mean)) drawn on rows that were given.

    Attributes
    ----------
    y, signal, probability
        Label, w*ᵀ(x − mean) and σ of it, row by row.
    weights, mean
        w* and the column means, so that the truth on any row is known.
    link
        σ.

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
    X
        All the rows at hand, dense or sparse: their mean and variance define the truth.
    link
        σ, as a Link or anything `as_link` takes.
    weights, n_nonzero
        As in `simulate`.
    standardize
        Whether a drawn w* ~ N(0, I) is for columns divided by their standard deviation, so that
        no column dominates by its unit. Given ``weights`` are for the columns as they are.
    random_state
        Seed or numpy Generator.

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(200, 5))
    >>> round(float(simulate_labels(X, link="logit", random_state=0).signal.var()), 12)
    1.0
    """
    X = check_array(X, accept_sparse=("csr", "csc"), dtype=np.float64)
    link = as_link(link)
    rng = np.random.default_rng(random_state)
    direction = _draw_weights(weights, n_nonzero, X.shape[1], rng)
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
    y = _draw_labels(probability, rng)
    return SimulatedLabels(y, signal, probability, direction / deviation, mean, link)
