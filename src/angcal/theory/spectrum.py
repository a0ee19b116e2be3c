r"""Spectrum of Σ and where the signal lies in it.

All that the equations ask of Σ and w* are four functions of one number μ > 0,

    df1(μ) = Σ m_j s_j/(s_j+μ)      df2(μ) = Σ m_j s_j²/(s_j+μ)²
    A(μ)   = Σ e_j s_j/(s_j+μ)      B(μ)   = Σ e_j s_j²/(s_j+μ)²

with m_j directions of eigenvalue s_j that hold the share e_j of the variance of w*ᵀx.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.special import logsumexp

from angcal._typing import Floats
from angcal.arrays import dense


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues s_j of Σ, each of m_j directions, and shares e_j of the signal's variance.

    Parameters
    ----------
    values : (J,) array-like
        s, positive.
    counts : (J,) array-like, optional
        m, positive and not necessarily whole; 1 by default.
    shares : (J,) array-like, optional
        e, at least 0 and made to sum to 1. By default m·s, which is what weights without
        preference for any direction have.

    See Also
    --------
    state_of_fit : What a fit on such features looks like.

    Examples
    --------
    >>> Spectrum.isotropic(400).size
    400.0
    >>> Spectrum([2.0, 1.0], [10, 90]).with_power(2.0).shares.round(3)
    array([0.308, 0.692])
    """

    values: Floats
    counts: Floats = None  # type: ignore[assignment]
    shares: Floats = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        values = np.atleast_1d(np.asarray(self.values, dtype=np.float64))
        given = {"values": values, "counts": self.counts, "shares": self.shares}
        if self.counts is None:
            given["counts"] = np.ones_like(values)
        if self.shares is None:
            given["shares"] = np.asarray(given["counts"], dtype=np.float64) * values
        for name, numbers in given.items():
            array = np.atleast_1d(np.asarray(numbers, dtype=np.float64))
            good = (array >= 0) if name == "shares" else (array > 0)
            if array.shape != values.shape or not np.all(np.isfinite(array) & good):
                raise ValueError(
                    f"{name}={numbers!r} must be one positive finite number for each eigenvalue; "
                    "leave out directions in which the features do not vary."
                )
            object.__setattr__(self, name, array)
        total = self.shares.sum()
        if not total > 0:
            raise ValueError(f"shares={self.shares!r} must not all be zero.")
        object.__setattr__(self, "shares", self.shares / total)

    @classmethod
    def isotropic(cls, d: float, variance: float = 1.0) -> Spectrum:
        """Σ = variance·I in d directions.

        Parameters
        ----------
        d : float
            Number of features.
        variance : float, default=1.0
            Of each.

        Returns
        -------
        Spectrum
            One eigenvalue.
        """
        return cls([variance], [d])  # type: ignore[arg-type]

    @classmethod
    def of_rows(cls, X: Any, atoms: int = 50) -> Spectrum:
        r"""The population's spectrum from rows, fewer than columns if need be.

        With ℓ_i the n′ = n − 1 eigenvalues of X_cX_cᵀ/n′, zeros included, Marchenko and Pastur's
        law says df1(ω(z)) = n′(1 − z/ω(z)), where ω(z) = 1/mean_i(1/(ℓ_i + z)), for every z > 0.
        Counts on a grid of eigenvalues are fitted to that by non-negative least squares, along
        with the trace and the number of columns.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Rows, at least three.
        atoms : int, default=50
            Eigenvalues of the grid.

        Returns
        -------
        Spectrum
            With the shares of a signal without preference.
        """
        eigenvalues, d = sample_eigenvalues(X)
        return cls._unmixed(eigenvalues, d, atoms)

    @classmethod
    def _unmixed(cls, eigenvalues: Floats, d: float, atoms: int) -> Spectrum:
        """NNLS on df1 at 80 places; `eigenvalues` are the n′ of the Gram matrix, zeros included."""
        n, mean = len(eigenvalues), float(eigenvalues.mean())
        if not mean > 0:
            raise ValueError("X must vary: all its rows are equal.")
        trace = mean * n
        z = mean * np.geomspace(1e-4, 1e3, 80)
        omega = 1.0 / np.mean(1.0 / (eigenvalues + z[:, None]), axis=1)
        df1 = n * (1.0 - z / omega)
        top = float(eigenvalues.max())
        grid = np.geomspace(1.05 * top, 1e-5 * max(trace / d, 1e-3 * top), atoms)
        rows = grid / (grid + omega[:, None])
        weight = 1.0 / np.sqrt(df1 + 1.0)
        # The trace and the number of columns count as much as ten of the others.
        design = np.vstack([rows * weight[:, None], 10.0 * grid / trace, np.full(atoms, 3.0 / d)])
        counts, _ = nnls(design, np.concatenate([df1 * weight, [10.0, 3.0]]), maxiter=50 * atoms)
        kept = counts > 1e-9 * d
        return cls(grid[kept], counts[kept])

    @property
    def size(self) -> float:
        """d, the number of directions."""
        return float(self.counts.sum())

    @property
    def trace(self) -> float:
        """tr Σ."""
        return float(self.counts @ self.values)

    def with_power(self, p: float) -> Spectrum:
        """The same features with signal shares e_j ∝ m_j s_j^p.

        Parameters
        ----------
        p : float
            1 for weights without preference, more where the large directions matter more.

        Returns
        -------
        Spectrum
            With these shares.
        """
        logs = np.log(self.counts) + p * np.log(self.values)
        return replace(self, shares=np.exp(logs - logsumexp(logs)))


def sample_eigenvalues(X: Any) -> tuple[Floats, int]:
    """The n − 1 eigenvalues of X_cX_cᵀ/(n − 1), zeros included, and the columns that vary."""
    n, d = X.shape
    if n < 3:
        raise ValueError(f"X has {n} rows; a spectrum needs three or more.")
    centered = dense(X) - np.asarray(X.mean(axis=0)).reshape(1, d)
    varying = int(np.count_nonzero(np.abs(centered).max(axis=0) > 1e-12))
    gram = centered @ centered.T if n <= d else centered.T @ centered
    found = np.maximum(np.linalg.eigvalsh(gram)[::-1] / (n - 1), 0.0)
    eigenvalues = np.zeros(n - 1)
    count = min(n - 1, len(found))
    eigenvalues[:count] = found[:count]
    return eigenvalues, varying


@dataclass(frozen=True, eq=False)
class Spectra:
    """One set of eigenvalues and many signals: shares has one row for each problem."""

    values: Floats
    counts: Floats
    shares: Floats

    def functions(self, mu: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """df1, df2, A and B at one μ for each problem."""
        kept = self.values / (self.values + mu[:, None])
        squares = kept * kept
        return (
            kept @ self.counts,
            squares @ self.counts,
            (kept * self.shares).sum(axis=1),
            (squares * self.shares).sum(axis=1),
        )

    def take(self, chosen: Any) -> Spectra:
        """The problems of these numbers."""
        return replace(self, shares=self.shares[chosen])
