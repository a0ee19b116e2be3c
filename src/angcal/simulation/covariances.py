"""Covariances of the rows: what every Σ can do, and the four kinds of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve
from scipy.signal import lfilter

from angcal._typing import Floats
from angcal.arrays import symmetric_root

# -- How rows, weights and labels are drawn, and from which seeds -------------------------------


DESIGNS = ("gaussian", "rademacher", "uniform", "student", "elliptical")
"""The laws a row can have before it is colored by the covariance."""

Seed = int | np.random.Generator | None


def stream(random_state: Seed, purpose: int) -> np.random.Generator:
    """Return a generator of its own for each integer seed and purpose."""
    # Were the integer used as it is, `simulate(n, random_state=0).sample(n, random_state=0)`
    # would hand the training rows out again as test rows.
    if isinstance(random_state, Integral):
        return np.random.default_rng([int(random_state), purpose])
    return np.random.default_rng(random_state)


def positive_integer(name: str, value: object) -> int:
    """Return `value` as an int of at least 1, or raise with the value."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:  # type: ignore[redundant-expr]
        raise ValueError(f"{name} must be an integer of at least 1; got {value!r}")
    return int(value)


def vector(name: str, value: ArrayLike, d: int) -> Floats:
    """Return `value` as d finite numbers, or say which shape it has."""
    vector = np.asarray(value, dtype=float)
    if vector.shape != (d,) or not np.all(np.isfinite(vector)):
        raise ValueError(
            f"{name} must hold {d} finite numbers, one per column; got shape {vector.shape}"
            " (np.ravel a coef_ of shape (1, d))"
        )
    return vector


def check_design(design: str, degrees: float) -> None:
    """Raise unless the design is known and its degrees leave a finite variance."""
    if design not in DESIGNS:
        raise ValueError(f"design must be one of {', '.join(DESIGNS)}; got {design!r}")
    if not 2 < degrees < np.inf:
        raise ValueError(
            f"degrees must be finite and above 2, or the variance is infinite; got {degrees!r}"
        )


def radius(n: int, degrees: float, rng: np.random.Generator) -> Floats:
    """Return n radii r with E r² = 1."""
    # r² = (ν − 2)/χ²_ν has mean one and makes r·Gaussian a multivariate t of covariance Σ.
    return np.sqrt((degrees - 2) / rng.chisquare(degrees, n))


def white_rows(design: str, n: int, d: int, degrees: float, rng: np.random.Generator) -> Floats:
    """Return n rows of mean zero and covariance I, of the design's law."""
    if design == "rademacher":
        # The same numbers as rng.choice((-1, 1), (n, d)), in a sixth of its time.
        return 2.0 * rng.integers(0, 2, (n, d)).astype(np.float64) - 1.0
    if design == "uniform":
        return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (n, d))
    if design == "student":
        return np.sqrt((degrees - 2) / degrees) * rng.standard_t(degrees, (n, d))
    rows = rng.standard_normal((n, d))
    if design == "elliptical":
        rows *= radius(n, degrees, rng)[:, None]
    return rows


def draw_weights(
    weights: ArrayLike | None, n_nonzero: int | None, d: int, rng: np.random.Generator
) -> Floats:
    """Return the given weights, or N(0, I) of which `n_nonzero` entries are kept."""
    if weights is not None:
        if n_nonzero is not None:
            raise ValueError("pass weights or n_nonzero, not both; weights fixes its own zeros")
        return vector("weights", weights, d)
    drawn = rng.standard_normal(d)
    if n_nonzero is not None:
        if positive_integer("n_nonzero", n_nonzero) > d:
            raise ValueError(f"n_nonzero must be at most d={d}; got {n_nonzero}")
        drawn[rng.permutation(d)[n_nonzero:]] = 0.0
    return drawn


def draw_labels(probability: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels in {0, 1} from (n,) P(y = 1), or 0, …, L−1 from (n, L) probabilities."""
    level = rng.random(len(probability))
    if probability.ndim == 1:
        return (level < probability).astype(np.int64)
    cumulative = np.cumsum(probability, axis=1)
    # Scaled to the row's own sum, so that rounding never draws a class of probability zero.
    level = level * cumulative[:, -1]
    return np.sum(cumulative[:, :-1] <= level[:, None], axis=1, dtype=np.int64)


class Covariance(ABC):
    """Σ = variance · C, described by what it does to vectors rather than by its d² entries.

    ``variance=None`` stands for 1/d, which keeps ‖x‖² of order one as d grows. A subclass says
    what C = LLᵀ does in ``_solve``, ``_color`` and ``_load``.

    See Also
    --------
    IdentityCovariance, AutoregressiveCovariance, SpikedCovariance, GivenCovariance : Its kinds.

    Examples
    --------
    >>> issubclass(IdentityCovariance, Covariance)
    True
    """

    d: int
    variance: float | None

    def __post_init__(self) -> None:
        positive_integer("d", self.d)
        if self.variance is not None and not 0 < self.variance < np.inf:
            raise ValueError(
                f"variance must be positive and finite, or None for 1/d; got {self.variance!r}"
            )

    @abstractmethod
    def _solve(self, v: Floats) -> Floats: ...

    @abstractmethod
    def _color(self, Z: Floats) -> Floats: ...

    @abstractmethod
    def _load(self, v: Floats) -> Floats: ...

    @property
    def scale(self) -> float:
        """The factor in front of C: ``variance``, or 1/d where that is None."""
        return 1.0 / self.d if self.variance is None else float(self.variance)

    def matrix(self) -> Floats:
        """Σ as a dense array, formed here and nowhere else.

        Returns
        -------
        ndarray of shape (d, d)
            Σ.
        """
        return self.apply(np.eye(self.d))

    def apply(self, v: Floats) -> Floats:
        """Σv.

        Parameters
        ----------
        v : ndarray of shape (d,) or (d, k)
            One vector, or k of them.

        Returns
        -------
        ndarray
            The products, in the shape of `v`.
        """
        return self.color(np.atleast_2d(self.loadings(v).T)).T.reshape(v.shape)

    def solve(self, v: Floats) -> Floats:
        """Σ⁻¹v.

        Parameters
        ----------
        v : ndarray of shape (d,) or (d, k)
            One vector, or k of them.

        Returns
        -------
        ndarray
            The solutions, in the shape of `v`.
        """
        return self._solve(v) / self.scale

    def color(self, Z: Floats) -> Floats:
        """Z·Lᵀ with LLᵀ = Σ: white rows in, rows of covariance Σ out.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
            Rows of covariance I.

        Returns
        -------
        ndarray of shape (n, d)
            Rows of covariance Σ.
        """
        return np.sqrt(self.scale) * self._color(Z)

    def loadings(self, v: Floats) -> Floats:
        """Lᵀv: ``color(Z) @ v`` is ``Z @ loadings(v)``.

        Parameters
        ----------
        v : ndarray of shape (d,) or (d, k)
            One vector, or k of them.

        Returns
        -------
        ndarray
            The loadings, in the shape of `v`.
        """
        return np.sqrt(self.scale) * self._load(v)

    def norm(self, w: Floats) -> float:
        """‖w‖_Σ = √(wᵀΣw).

        Parameters
        ----------
        w : ndarray of shape (d,)
            A vector.

        Returns
        -------
        float
            Its norm.
        """
        return float(np.linalg.norm(self.loadings(w)))


@dataclass(frozen=True)
class IdentityCovariance(Covariance):
    """Σ = variance · I.

    Parameters
    ----------
    d : int
        Number of columns.
    variance : float, optional
        The factor in front; 1/d when None.

    See Also
    --------
    Covariance : What every covariance can do.

    Examples
    --------
    >>> IdentityCovariance(4).norm(np.ones(4))
    1.0
    """

    d: int
    variance: float | None = None

    def _solve(self, v: Floats) -> Floats:
        return v

    def _color(self, Z: Floats) -> Floats:
        return Z

    def _load(self, v: Floats) -> Floats:
        return v


@dataclass(frozen=True)
class AutoregressiveCovariance(Covariance):
    """Σ_kl = variance · ρ^|k−l|; every product is O(d).

    Parameters
    ----------
    d : int
        Number of columns.
    rho : float, default=0.5
        Correlation of neighboring columns, strictly between −1 and 1.
    variance : float, optional
        The factor in front; 1/d when None.

    See Also
    --------
    Covariance : What every covariance can do.

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

    def _solve(self, v: Floats) -> Floats:
        # The inverse of an AR(1) covariance is tridiagonal.
        out = (1 + self.rho**2) * v
        out[1:] -= self.rho * v[:-1]
        out[:-1] -= self.rho * v[1:]
        # An end has one neighbor only, so its diagonal entry is 1; when d = 1 the one entry
        # is both ends.
        out[0] -= self.rho**2 * v[0]
        out[-1] -= self.rho**2 * v[-1]
        return out / (1 - self.rho**2)

    def _color(self, Z: Floats) -> Floats:
        # x_k = ρ·x_{k−1} + √(1−ρ²)·z_k, started in stationarity: the Cholesky root, O(nd) to
        # apply. Non-Gaussian entries have another law under the symmetric root, for which there is
        # GivenCovariance(..., root="symmetric").
        innovations = np.sqrt(1 - self.rho**2) * Z
        innovations[:, 0] = Z[:, 0]
        return self._accumulate(innovations, 1)

    def _load(self, v: Floats) -> Floats:
        # The transpose of the recursion runs from the other end.
        loaded = self._accumulate(v[::-1], 0)[::-1].copy()
        loaded[1:] *= np.sqrt(1 - self.rho**2)
        return loaded


@dataclass(frozen=True, eq=False)
class SpikedCovariance(Covariance):
    """Σ = variance · (I + Σ_j s_j u_j u_jᵀ), u_j random orthonormal.

    Parameters
    ----------
    d : int
        Number of columns.
    spikes : tuple of float, default=(10.0,)
        s, each above −1: an eigenvalue of C is 1 + s_j.
    variance : float, optional
        The factor in front; 1/d when None.
    random_state : int, Generator or None
        Draws the directions.

    See Also
    --------
    Covariance : What every covariance can do.

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

    def _solve(self, v: Floats) -> Floats:
        return self._power(v, -1.0)

    def _color(self, Z: Floats) -> Floats:
        return self._power(Z.T, 0.5).T

    def _load(self, v: Floats) -> Floats:
        return self._power(v, 0.5)


@dataclass(frozen=True, eq=False)
class GivenCovariance(Covariance):
    """Σ = variance · base; ``variance=1.0`` takes ``base`` as it is, the default divides by d.

    Parameters
    ----------
    base : array-like of shape (d, d)
        A positive definite matrix.
    variance : float, optional
        The factor in front of it; 1/d when None.
    root : {"cholesky", "symmetric"}, default="cholesky"
        L that colors white rows; "symmetric" is Σ^½. Gaussian rows have the same law either way,
        others do not.

    See Also
    --------
    Covariance : What every covariance can do.

    Examples
    --------
    >>> GivenCovariance(np.diag([1.0, 4.0]), variance=1.0).norm(np.array([0.0, 1.0]))
    2.0
    """

    base: Floats
    variance: float | None = None
    root: str = "cholesky"
    d: int = field(init=False)
    factor: Floats = field(init=False, repr=False)
    coloring: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.root not in ("cholesky", "symmetric"):
            raise ValueError(f"root must be 'cholesky' or 'symmetric'; got {self.root!r}")
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
        coloring = factor if self.root == "cholesky" else symmetric_root(base)
        vars(self).update(base=base, d=len(base), factor=factor, coloring=coloring)
        super().__post_init__()

    def _solve(self, v: Floats) -> Floats:
        return cho_solve((self.factor, True), v)

    def _color(self, Z: Floats) -> Floats:
        return Z @ self.coloring.T

    def _load(self, v: Floats) -> Floats:
        return self.coloring.T @ v
