r"""Blocks of Ĥ = (Σ_i D_i ⊗ x̃_i x̃_iᵀ + λI)⁻¹: each row's own, with it and without it.

    G_i = (I ⊗ x̃_i)ᵀ Ĥ (I ⊗ x̃_i),   Γ_i = G_i (I − D_i G_i)⁻¹

Γ_i is the same block of the Hessian without row i. Two ways, as for two classes:

- *exact*: one Cholesky of side q(min(n, d) + 1). Rows longer than n are first written in the
  coordinates of their own span, which a ridge penalty does not notice.
- *randomised*: Γ_i of a few sampled rows by conjugate gradients, products with X alone, no matrix
  of side qd. Rows of one design have much the same Γ_i up to their size s_i, so Γ_i ≈ s_i·Γ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from angcal._typing import Floats
from angcal.hessian import NotConvergedError, SingularHessianError
from angcal.hessian.block_cg import block_conjugate_gradients
from angcal.hessian.row_sizes import column_squares, row_sizes
from angcal.several.multinomial import MultinomialFit

LARGEST_EXACT_SIDE = 2_600
# Where even sampled rows fail, a factorisation of up to this side is tried.
LARGEST_FALLBACK_SIDE = 12_000
FEWEST_ROWS, MOST_ROWS, COLUMNS = 6, 16, 72
FORM_TOLERANCE = 3e-3
# Entries of rows × columns that a product holds at a time: 200 MB in single precision.
PRODUCT_ENTRIES = 50_000_000
# Γ_i/s_i of sampled rows may scatter by this much about their mean.
LARGEST_SCATTER = 0.3
NEGLIGIBLE_DIRECTION = 1e-12
SEED = 20_250_916


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """What leaving out one row does, for every row.

    Attributes
    ----------
    steps : (n, q, q) array
        Γ_i.
    score_step : (n, q) array
        By how much the scores would move in one Newton step; zero at the optimum.
    side : {"exact", "randomised"}
    relative_error : float
        Standard error of the common Γ as a share of it; 0 where exact.
    """

    steps: Floats
    score_step: Floats
    side: str
    relative_error: float


def row_blocks(fit: MultinomialFit, method: str = "auto") -> RowBlocks:
    """Γ_i of every row, by the method asked for or the cheaper one."""
    n, d = fit.X.shape
    side = fit.n_directions * (min(n, d) + 1)
    if method == "exact" or (method == "auto" and side <= LARGEST_EXACT_SIDE):
        return exact_blocks(fit)
    try:
        return sampled_blocks(fit)
    except NotConvergedError as error:
        if method == "randomised":
            raise ValueError(f"observables='randomised' is not possible: {error}.") from error
        if side > LARGEST_FALLBACK_SIDE:
            raise ValueError(
                f"The leverages can neither be sampled ({error}) nor factorised (a side of {side})."
                " Strengthen the penalty."
            ) from error
        return exact_blocks(fit)


# -- exact -----------------------------------------------------------------------------------


def exact_blocks(fit: MultinomialFit) -> RowBlocks:
    """Γ_i from one Cholesky."""
    Z, coordinates = _coordinates(fit)
    n, p = Z.shape
    q = fit.n_directions
    D = fit.curvatures
    ridge = np.full(p, fit.strength)
    if fit.fit_intercept:
        ridge[-1] = 0.0
    H = np.empty((q * p, q * p))
    for k in range(q):
        for l in range(k + 1):
            block = (Z * D[:, k, l, None]).T @ Z
            H[k * p : (k + 1) * p, l * p : (l + 1) * p] = block
            H[l * p : (l + 1) * p, k * p : (k + 1) * p] = block.T
    H[np.diag_indices_from(H)] += np.tile(ridge, q)
    try:
        factor = linalg.cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError as error:
        raise SingularHessianError(
            "The fit of several classes is not unique: its penalised Hessian is singular. Add a "
            "ridge penalty, for example LogisticRegression(C=1.0)."
        ) from error
    gradient = (-Z.T @ fit.residuals).T + ridge * coordinates
    step = -linalg.cho_solve(factor, gradient.ravel(), check_finite=False).reshape(q, p)
    inverse = linalg.cho_solve(factor, np.eye(q * p), overwrite_b=True, check_finite=False)
    G = np.empty((n, q, q))
    for k in range(q):
        for l in range(k + 1):
            block = inverse[k * p : (k + 1) * p, l * p : (l + 1) * p]
            G[:, k, l] = G[:, l, k] = np.einsum("np,np->n", Z @ block, Z)
    return RowBlocks(left_out(G, D), Z @ step.T, "exact", 0.0)


def left_out(G: Floats, D: Floats) -> Floats:
    """Γ_i = G_i(I − D_iG_i)⁻¹."""
    identity = np.eye(G.shape[-1])
    steps = np.linalg.solve(np.swapaxes(identity - D @ G, -1, -2), np.swapaxes(G, -1, -2))
    return np.swapaxes(steps, -1, -2)


def _coordinates(fit: MultinomialFit) -> tuple[Floats, Floats]:
    """Rows in at most n coordinates, a one appended for the intercept; and V, b in the same."""
    X = fit.X
    n, d = X.shape
    if n < d:
        gram = np.asarray((X @ X.T).toarray() if hasattr(X, "tocsr") else X @ X.T, dtype=float)
        values, vectors = linalg.eigh(gram, overwrite_a=True, check_finite=False)
        kept = values > NEGLIGIBLE_DIRECTION * max(values[-1], np.finfo(float).tiny)
        lengths, U = np.sqrt(values[kept]), vectors[:, kept]
        Z, slopes = U * lengths, ((fit.scores - fit.intercept).T @ U) / lengths
    else:
        Z = np.asarray(X.toarray() if hasattr(X, "tocsr") else X, dtype=np.float64)
        slopes = fit.coef
    if not fit.fit_intercept:
        return Z, slopes
    return np.column_stack([Z, np.ones(n)]), np.column_stack([slopes, fit.intercept])


# -- randomised ------------------------------------------------------------------------------


def sampled_blocks(fit: MultinomialFit) -> RowBlocks:
    """Γ_i ≈ s_i·Γ, with Γ from sampled rows."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _Sampling(fit).blocks()


class _Sampling:
    """Products with X in single precision, in directions that make the mean D diagonal."""

    def __init__(self, fit: MultinomialFit) -> None:
        self.fit = fit
        self.n, self.d = fit.X.shape
        self.q = fit.n_directions
        self.p = self.d + fit.fit_intercept
        mean = fit.curvatures.mean(axis=0)
        self.levels, self.turn = np.linalg.eigh(mean)
        self.X = fit.X.astype(np.float32, copy=False)
        turned = self.turn.T @ fit.curvatures @ self.turn
        self.D = turned.astype(np.float32)
        level = float(np.maximum(self.levels, 0.0).mean())
        self.level = np.full(self.n, level)
        self.moments, self.peaks = column_squares(self.X, self.level)

    @property
    def inverse_diagonal(self) -> Floats:
        """Of the Hessian with the mean D in place of every D_i, (p·q, 1)."""
        per_level = self.moments / max(self.level[0], np.finfo(float).tiny)
        if self.fit.fit_intercept:
            per_level = np.append(per_level, float(self.n))
        ridge = np.full(self.p, self.fit.strength)
        if self.fit.fit_intercept:
            ridge[-1] = 0.0
        diagonal = per_level[:, None] * np.maximum(self.levels, 1e-12) + ridge[:, None]
        return (1.0 / diagonal).reshape(-1, 1).astype(np.float32)

    def apply(self, V: Floats) -> Floats:
        """(Σ D_i ⊗ x̃x̃ᵀ + λ)V for columns V of length p·q."""
        columns = V.shape[1]
        blocks = V.reshape(self.p, self.q * columns)
        out = np.float32(self.fit.strength) * blocks
        if self.fit.fit_intercept:
            out[self.d] = 0.0
        step = max(1, PRODUCT_ENTRIES // blocks.shape[1])
        for start in range(0, self.n, step):
            rows = slice(start, start + step)
            X = self.X[rows]
            images = X @ blocks[: self.d]
            if self.fit.fit_intercept:
                images += blocks[self.d]
            weighted = np.matmul(self.D[rows], images.reshape(-1, self.q, columns))
            weighted = weighted.reshape(images.shape)
            out[: self.d] += X.T @ weighted
            if self.fit.fit_intercept:
                out[self.d] += weighted.sum(axis=0)
        return out.reshape(V.shape)

    def dense_rows(self, rows: np.ndarray) -> Floats:
        """Rows x̃ with their one."""
        block = self.X[rows]
        block = np.asarray(block.toarray() if hasattr(block, "tocsr") else block)
        if self.fit.fit_intercept:
            block = np.column_stack([block, np.ones(len(rows), dtype=np.float32)])
        return block

    def sizes(self) -> Floats:
        """s_i, the trace of Γ_i with the Hessian's diagonal in place of the Hessian."""
        diagonal = self.moments + self.fit.strength
        q = row_sizes(self.X, diagonal, self.peaks, self.level)
        if self.fit.fit_intercept:
            q = q + 1.0 / max(float(self.level.sum()), np.finfo(float).tiny)
        return q

    def blocks(self) -> RowBlocks:
        """Sample rows, solve, and carry over to all rows."""
        sizes = self.sizes()
        count = int(np.clip(COLUMNS // self.q, FEWEST_ROWS, MOST_ROWS))
        order = np.argsort(np.round(100.0 * np.log(np.maximum(sizes, 1e-300))), kind="stable")
        order = order[sizes[order] > 0]
        if len(order) < FEWEST_ROWS:
            raise NotConvergedError("hardly any row has an entry")
        rng = np.random.default_rng(SEED)
        places = ((np.arange(count) + rng.random()) * len(order) / count).astype(np.intp)
        rows = np.unique(order[places])
        X_rows = self.dense_rows(rows)
        rhs, scale = self._columns(X_rows)
        tolerances = np.full(rhs.shape[1], FORM_TOLERANCE)
        W, _ = block_conjugate_gradients(self.apply, rhs, self.inverse_diagonal, tolerances)
        step = W[:, -1].reshape(self.p, self.q).astype(np.float64) * scale
        W = W[:, :-1].reshape(self.p, self.q, len(rows), self.q)
        G = np.einsum("rp,pkrl->rkl", X_rows.astype(np.float64), W.astype(np.float64))
        G = 0.5 * (G + np.swapaxes(G, 1, 2))
        found = left_out(G, self.D[rows].astype(np.float64))
        ratios = found / sizes[rows, None, None]
        common = ratios.mean(axis=0)
        deviations = np.linalg.norm(ratios - common, axis=(1, 2)) / np.linalg.norm(common)
        scatter = float(np.sqrt(np.mean(deviations**2)))
        if not scatter <= LARGEST_SCATTER:
            raise NotConvergedError(
                "what leaving a row out does is not told by its size (it scatters by "
                f"{scatter:.0%})"
            )
        steps = sizes[:, None, None] * common
        steps[rows] = found
        turn = self.turn
        images = np.asarray(self.fit.X @ step[: self.d]) + (
            step[self.d] if self.fit.fit_intercept else 0.0
        )
        return RowBlocks(
            turn @ steps @ turn.T, images @ turn.T, "randomised", scatter / np.sqrt(len(rows))
        )

    def _columns(self, X_rows: Floats) -> tuple[Floats, float]:
        """Right-hand sides x̃_i ⊗ e_l, and the negative gradient as the last one; its scale."""
        r = len(X_rows)
        rhs = np.zeros((self.p, self.q, r, self.q), dtype=np.float32)
        for l in range(self.q):
            rhs[:, l, :, l] = X_rows.T
        slopes, offsets = self.fit.gradient
        gradient = np.vstack([slopes.T, offsets[None, :]]) if self.fit.fit_intercept else slopes.T
        gradient = -gradient @ self.turn
        scale = float(np.abs(gradient).max()) or 1.0
        last = (gradient / scale).astype(np.float32).reshape(-1, 1)
        return np.column_stack([rhs.reshape(self.p * self.q, -1), last]), scale
