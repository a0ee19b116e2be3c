r"""½‖w‖²_{M⁻¹} with M ∝ Σ^{p−1}: a ridge penalty that expects signal where features vary.

With Σ = Σ_j s_j q_j q_jᵀ the covariance of the features, a ridge penalty expects the part
e_j ∝ s_j of the signal's variance along q_j. On real data e_j ∝ s_j^p with p of 1 to 3. The map
w = M^½v, M = Σ^{p−1}, turns such weights into even ones, so that ridge fits of the rows XM^½ are
fits of X that expect s^p; p = 1 is ridge itself. Σ comes from unlabeled rows and the training rows
together:

    Σ ≈ V diag(s) Vᵀ + r(I − VVᵀ)

with all directions where columns are few, and with leading ones and an even remainder otherwise.
Eigenvalues are shrunk to their mean as by Ledoit and Wolf. A column that varies less in the
training rows than in the pool counts with its deviation there: rare ones are scaled up by few rows.

Labels say too little about p to choose it freely. `exponent_shares` weighs a few by leave-one-out
likelihood and a prior about 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.special import logsumexp

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import is_tensor, on_host
from angcal.covariance import RANK_TOLERANCE
from angcal.link_posterior import BELIEF
from angcal.pools import Moments, Pool, RowsPool, open_pool, row_moments
from angcal.rows import FarRows, RotatedRows, dense_parts, rotate, rows_of_gram

EXPONENTS = (1.0, 2.0)
"""Values of p; a third one between or above them changes nothing on the development tasks of
docs/pool.md, but for the sets where ridge is right, which lose more."""
SPREAD = 0.7
"""Standard deviation of the prior of p about 1; chosen on the same tasks."""


@dataclass(frozen=True, eq=False)
class PenaltyShape:
    """M = V diag(g) Vᵀ + h(I − VVᵀ).

    Attributes
    ----------
    exponent : float
        p.
    directions : (d, k) array
        V, orthonormal.
    gains : (k,) array
        g.
    rest : float
        h.
    """

    exponent: float
    directions: Floats
    gains: Floats
    rest: float

    def times(self, W: Floats, power: float = 1.0) -> Floats:
        """M^power·W for (d,) or (d, m) W."""
        V, h = self.directions, self.rest**power
        more = self.gains**power - h
        return h * W + V @ (more * (V.T @ W).T).T

    def rotate(self, X: Matrix, weights: Floats, intercept: bool) -> RotatedRows:
        """Z with ZZᵀ = XMXᵀ (rows about their mean), whose ridge fits are those of X under M."""
        n, d = X.shape
        if n < d and n <= plan.MOST_PAIRED_ROWS:
            return self._by_gram(X, weights, intercept)
        rows = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        even = rotate(self.times(rows.T, 0.5).T, weights, intercept)
        assert isinstance(even, RotatedRows)
        center = weights @ rows / weights.sum() if intercept else None

        def expand(v: Floats) -> Floats:
            return self.times(even.expand(v), 0.5)

        return RotatedRows(even.X, expand, intercept, center, even.has_own_columns)

    def rotate_far(self, X: FarRows) -> FarRows:
        """The same for rows that are read anew on every pass: XM^½, multiplied as they are read."""
        return X.in_columns(self.times(np.eye(X.shape[1]), 0.5))

    def _by_gram(self, X: Matrix, weights: Floats, intercept: bool) -> RotatedRows:
        """From XMXᵀ = h·XXᵀ + XV diag(g − h) VᵀXᵀ, so that sparse rows stay sparse."""
        V, h = self.directions, self.rest
        along, products = np.asarray(X @ V, dtype=np.float64), X @ X.T
        products = products.toarray() if sparse.issparse(products) else products
        gram = h * np.asarray(products, dtype=np.float64) + (along * (self.gains - h)) @ along.T
        if not intercept:
            return rows_of_gram(gram, lambda a: self.times(np.asarray(X.T @ a)), False, None)
        share = weights / weights.sum()
        center = np.asarray(X.T @ share, dtype=np.float64)
        level = gram @ share
        gram = gram - level[:, None] - level + float(share @ level)

        def back(a: Floats) -> Floats:
            return self.times(np.asarray(X.T @ a) - np.multiply.outer(center, a.sum(axis=0)))

        return rows_of_gram(gram, back, True, center)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Σ ≈ V diag(s) Vᵀ + r(I − VVᵀ), shrunk to its mean.

    Attributes
    ----------
    directions : (d, k) array
        V.
    values : (k,) array
        s.
    rest : float
        r.
    """

    directions: Floats
    values: Floats
    rest: float

    def shape(self, exponent: float) -> PenaltyShape:
        """M for one exponent, with tr MΣ = tr Σ so that C keeps its meaning."""
        d, k = self.directions.shape
        largest = float(self.values.max())
        values = np.append(self.values, self.rest) / (largest if largest > 0.0 else 1.0)
        counts = np.append(np.ones(k), d - k)
        gains = values ** (exponent - 1.0)
        shaped = float(counts @ (gains * values))
        gains *= float(counts @ values) / shaped if shaped > 0.0 else 1.0
        return PenaltyShape(exponent, self.directions, gains[:-1], float(gains[-1]))


def why_without(pool: Pool | None, X: Any) -> str:
    """Why the pool's spectrum is of no use for these rows, or nothing."""
    if pool is None:
        return "there is no pool"
    if pool.once:
        return "the pool can be gone over once only, and its spectrum takes several passes"
    (n, d), most = X.shape, plan.PRODUCT_ENTRIES
    if isinstance(X, FarRows):
        if d <= plan.LARGEST_SPECTRUM_SIDE:
            return ""
        return f"X comes in blocks of more than {plan.LARGEST_SPECTRUM_SIDE:,} columns"
    if not (n < d and n <= plan.MOST_PAIRED_ROWS) and n * d > most:
        return f"a copy of X would have {n * d:,} entries, more than {most:,}"
    if is_tensor(X) and (n + pool.n_rows) * d > most:
        return f"tensors of more than {most:,} entries are not brought to the host for it"
    return ""


def spectrum_of(
    pool: Pool, X: Matrix | FarRows, centered: bool, factors: Floats | None = None
) -> Spectrum:
    """The spectrum of pool and training rows together, columns multiplied by `factors` first.

    It is about the mean where an intercept is free, `centered`.
    """
    own = row_moments(X) if isinstance(X, FarRows) else open_pool(X, X.shape[1]).columns
    both, d = own.merge(pool.columns), X.shape[1]
    held = _held(own, pool.columns, centered) * (1.0 if factors is None else factors)
    shift = held * both.mean if centered else np.zeros(d)

    def add_up(f: Callable[..., Any], *shared: Any) -> Any:
        """Σ_b f(X_b, shift, *shared) over rows and pool, by their number."""
        each = partial(_of_pieces, f)
        given = (held, shift, *shared)
        if isinstance(X, FarRows):
            total = X.sum(each, given)
        else:
            total = f(_scaled(X, held), shift, *shared)
        if isinstance(pool, RowsPool):
            return (total + on_host(pool.sum(each, given))) / both.count
        for block in pool.blocks():
            near = on_host(block) if is_tensor(block) else block
            total = total + f(_scaled(near, held), shift, *shared)
        return total / both.count

    if d <= plan.LARGEST_SPECTRUM_SIDE:
        found = add_up(_scatter)
        values, directions = linalg.eigh(found, overwrite_a=True, check_finite=False)
    else:
        values, directions = _leading(add_up, d)
    lengths, fourth = add_up(_powers)
    return _shrunk(np.maximum(values, 0.0), directions, lengths, fourth, both.count)


def _of_pieces(f: Callable[..., Any], X: Any, held: Floats, *shared: Any) -> Any:
    """f of a block, piece by piece, its columns multiplied by `held`."""
    return sum(f(on_host(rows) * held, *shared) for _, rows in dense_parts(X))


def _shrunk(values: Floats, V: Floats, trace: float, fourth: float, count: int) -> Spectrum:
    """Ledoit and Wolf's share of the mean, from E‖x‖⁴ and ‖Σ‖²."""
    d, k = V.shape
    rest = max(trace - float(values.sum()), 0.0) / (d - k) if k < d else 0.0
    mean = trace / d
    square = float(values @ values) + rest**2 * (d - k)
    spread = square / d - mean**2
    share = min(max((fourth - square) / count / d / spread, 0.0), 1.0) if spread > 0 else 1.0
    least = RANK_TOLERANCE * float(values.max())
    shrunk = np.maximum((1.0 - share) * values + share * mean, least)
    return Spectrum(V, shrunk, max((1.0 - share) * rest + share * mean, least))


def _leading(add_up: Callable[..., Any], d: int) -> tuple[Floats, Floats]:
    """Largest eigenvalues and their directions, by three steps of subspace iteration."""
    count = max(1, min(plan.LEADING_DIRECTIONS, plan.PRODUCT_ENTRIES // d))
    basis = linalg.qr(np.random.default_rng(plan.SEED).normal(size=(d, count)), mode="economic")[0]
    for step in range(3):
        image = add_up(_image, basis)
        if step < 2:
            basis = linalg.qr(image, mode="economic", check_finite=False)[0]
    inner = basis.T @ image
    values, vectors = linalg.eigh(0.5 * (inner + inner.T), check_finite=False)
    return values, basis @ vectors


def _held(own: Moments, pool: Moments, centered: bool) -> Floats:
    """min(1, deviation in the training rows over that in all rows) of every column."""

    def squares(of: Moments) -> Floats:
        return of.scatter / of.count + (0.0 if centered else of.mean**2)

    here, all_rows = squares(own), squares(own.merge(pool))
    positive = np.where(all_rows > 0.0, all_rows, 1.0)
    return np.sqrt(np.clip(here / positive, 0.0, 1.0))


def _scaled(block: Matrix, held: Floats) -> Matrix:
    if sparse.issparse(block):
        return (block @ sparse.diags_array(held)).tocsr()
    return np.asarray(block, dtype=np.float64) * held


def _scatter(block: Matrix, shift: Floats) -> Floats:
    """Σ (x − m)(x − m)ᵀ."""
    total = np.zeros((len(shift), len(shift)))
    for _, rows in dense_parts(block):
        deviations = rows - shift
        total += deviations.T @ deviations
    return total


def _image(block: Matrix, shift: Floats, Q: Floats) -> Floats:
    """Σ (x − m)(x − m)ᵀQ, without centered rows."""
    along = np.asarray(block @ Q) - shift @ Q
    return np.asarray(block.T @ along) - np.outer(shift, along.sum(axis=0))


def _powers(block: Matrix, shift: Floats) -> Floats:
    """Σ‖x − m‖² and Σ‖x − m‖⁴."""
    squares = block.multiply(block) if sparse.issparse(block) else block * block
    lengths = np.asarray(squares.sum(axis=1)).ravel() - 2.0 * np.asarray(block @ shift)
    lengths = np.maximum(lengths + float(shift @ shift), 0.0)
    return np.array([lengths.sum(), lengths @ lengths])


def exponent_shares(losses: list[Floats], n_labels: float, exponents: Floats) -> Floats:
    """π_p ∝ exp(−(p − 1)²/2·0.7²)·Σ_C exp(−½n·loss_{C,p}); 0 where it is negligible.

    Examples
    --------
    >>> exponent_shares([np.array([0.5]), np.array([0.5])], 100, np.array([1.0, 1.5])).round(3)
    array([0.563, 0.437])
    """
    count = BELIEF.labels_count_for * n_labels
    logs = np.array([float(logsumexp(-count * each)) for each in losses])
    logs -= 0.5 * ((exponents - 1.0) / SPREAD) ** 2
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    shares[shares < 1e-3] = 0.0  # moves no probability by as much
    return shares / shares.sum()
