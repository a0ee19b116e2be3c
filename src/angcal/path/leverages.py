r"""Leverages h_ic = z̃_iᵀĤ_c z̃_i of every row under every penalty, Ĥ_c = (Z̃ᵀD_cZ̃ + q_c·I)⁻¹.

*Exact*: one factorisation for each penalty, all of them in one batch where they are small.
*Sampled*: as in :mod:`angcal.hessian.iterative`, γ_i = ρ_c·s_ic with the sizes
s_ic = Σ_j z̃_ij²/m_jc, m_jc the Hessian's diagonal, and ρ_c from the γ_i of a few rows, found by
conjugate gradients. The rows are the same for every penalty: their luck of the draw moves the whole
curve and not the place of its minimum, and all of them share products with Z.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from angcal._typing import Floats
from angcal.fitting import LinearFit
from angcal.hessian import NotConvergedError
from angcal.hessian.iterative import (
    LARGEST_SCATTER,
    SEED,
    STEP_TOLERANCE,
    block_conjugate_gradients,
)
from angcal.losses import Logistic
from angcal.observables import Observables, observe, remaining_curvature
from angcal.path.design import Design
from angcal.path.solver import PathSolution
from angcal.penalties import Ridge

# How far the form of a row may be off; its rest is extrapolated, and rows differ by far more.
FORM_TOLERANCE = 5e-3
FIRST_ROWS, MOST_ROWS, COUPLING_PROBES = 8, 64, 8
# Penalties that share one iteration: strong ones should not wait for weak ones, and a product with
# 32 columns costs less for each of them than one with fewer.
PENALTIES_AT_ONCE = 4
# Entries of a batch of small exact inverses, and products (n·k²) up to which one is quick.
MOST_BATCH_ENTRIES, MOST_BATCH_PRODUCTS = 4_000_000, 8_000_000


def observe_path(
    design: Design,
    strengths: Floats,
    solution: PathSolution,
    method: str,
    tolerance: float = STEP_TOLERANCE,
) -> list[Observables]:
    """Observables of every fit.

    Parameters
    ----------
    design, strengths, solution
        The problems, their q, and where they were solved.
    method : {"auto", "exact", "randomised"}
        "auto" is exact where that takes no longer.
    tolerance : float
        Sampled leverages are good to this share over √n.
    """
    n, k = design.shape
    m = len(strengths)
    quick = n * k * k <= MOST_BATCH_PRODUCTS and m * n * (k + 1) <= MOST_BATCH_ENTRIES
    if method != "randomised" and quick and isinstance(design.Z, np.ndarray):
        return _observe_batch(design, strengths, solution)
    if method == "exact":
        return [_observe_exactly(design, strengths, solution, c) for c in range(m)]
    found: list[Observables] = []
    for start in range(0, m, PENALTIES_AT_ONCE):
        columns = np.arange(start, min(start + PENALTIES_AT_ONCE, m))
        sample = _Sample(design, strengths[columns], solution.scores[:, columns])
        try:
            leverages, coupling, errors = sample.good_leverages(tolerance)
        except NotConvergedError:
            found += [_observe_exactly(design, strengths, solution, int(c)) for c in columns]
            continue
        found += [
            _assemble(design, solution, int(c), leverages[:, j], coupling[:, j], float(errors[j]))
            for j, c in enumerate(columns)
        ]
    return found


def _assemble(
    design: Design,
    solution: PathSolution,
    column: int,
    leverages: Floats,
    coupling: Floats,
    error: float | None,
) -> Observables:
    u = solution.scores[:, column]
    loss = Logistic()
    curvatures = design.weights * loss.hessian(u, design.labels)
    return Observables(
        scores=u,
        linear_scores=u - solution.intercepts[column],
        residuals=-design.weights * loss.gradient(u, design.labels),
        curvatures=curvatures,
        leverages=leverages,
        coupling=coupling,
        intercept_leverage=1.0 / float(curvatures.sum()) if design.fit_intercept else 0.0,
        n_features=design.n_features,
        has_intercept=design.fit_intercept,
        side="primal" if error is None else "randomised",
        step_error=error or 0.0,
    )


def _observe_exactly(
    design: Design, strengths: Floats, solution: PathSolution, column: int
) -> Observables:
    fit = LinearFit(
        X=design.Z,
        labels=design.labels,
        weights=design.weights,
        coef=solution.coef[:, column],
        intercept=float(solution.intercepts[column]),
        loss=Logistic(),
        penalty=Ridge(float(strengths[column]) / float(design.weights.sum())),
        fit_intercept=design.fit_intercept,
    )
    return replace(observe(fit), n_features=design.n_features)


def _observe_batch(design: Design, strengths: Floats, solution: PathSolution) -> list[Observables]:
    """Small inverses, all at once: what twenty calls would spend on being called is saved."""
    (n, k), m = design.shape, len(strengths)
    Z = np.column_stack([design.Z, np.ones(n)]) if design.fit_intercept else design.Z
    D = design.weights[:, None] * Logistic().hessian(solution.scores, design.labels[:, None])
    half = np.sqrt(D.T)[:, :, None] * Z
    H = half.transpose(0, 2, 1) @ half
    H[:, np.arange(k), np.arange(k)] += strengths[:, None]
    # Unit diagonal before inverting: badly scaled columns are not a singularity.
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("cjj->cj", H), np.finfo(float).tiny))
    inverse = np.linalg.inv(H * scale[:, :, None] * scale[:, None, :])
    inverse *= scale[:, :, None] * scale[:, None, :]
    images = Z @ inverse
    h = np.maximum(np.einsum("cij,ij->ic", images, Z), 0.0)
    # Σ_{j≠i} A_ij²/(r_i r_j)² by random signs, as in PenalizedHessian.coupling.
    r = remaining_curvature(h, D)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, COUPLING_PROBES))
    smooth = images @ (Z.T @ (signs / r.T[:, :, None]))
    rows = np.mean(smooth**2, axis=2).T - (h / r) ** 2
    coupling = np.maximum(rows, 0.0) / r**2
    return [_assemble(design, solution, c, h[:, c], coupling[:, c], None) for c in range(m)]


class _Sample:
    """γ_i of a few rows under a few penalties."""

    def __init__(self, design: Design, strengths: Floats, scores: Floats) -> None:
        self._design, self._Z = design, design.single
        self._n, self._k = design.shape
        self._free = design.fit_intercept
        self._D = design.weights[:, None] * Logistic().hessian(scores, design.labels[:, None])
        self._m = len(strengths)
        self._Q = np.zeros((self._k + self._free, self._m))
        self._Q[: self._k] = strengths
        moments = design_product(design.squares.T, self._D)
        moments = design.rotation.even(moments)
        moments = np.vstack([moments, self._D.sum(axis=0)]) if self._free else moments
        self._diagonal = np.maximum(moments + self._Q, np.finfo(np.float32).tiny)

    def sizes(self) -> Floats:
        """s_ic = Σ_j z̃_ij²/m_jc."""
        inverse = 1.0 / self._diagonal
        sizes = np.asarray(
            design_product(self._design.squares, inverse[: self._k]), dtype=np.float64
        )
        return sizes + (inverse[-1] if self._free else 0.0)

    def _apply(self, V: np.ndarray) -> np.ndarray:
        """Z̃ᵀDZ̃ + Q on columns in groups, one for each penalty."""
        weighted = self._images(V).reshape(self._n, self._m, -1) * self._D32[:, :, None]
        weighted = weighted.reshape(self._n, -1)
        out = design_product(self._Z.T, weighted)
        out = np.vstack([out, weighted.sum(axis=0)]) if self._free else out
        shape = (len(V), self._m, -1)
        penalty = self._Q32[:, :, None] * V.reshape(shape)
        return (out.reshape(shape) + penalty).reshape(len(V), -1)

    def _images(self, V: np.ndarray) -> np.ndarray:
        """Z̃V."""
        images = design_product(self._Z, V[: self._k])
        return images + V[-1] if self._free else images

    def good_leverages(self, tolerance: float) -> tuple[Floats, Floats, Floats]:
        """h from as many rows as it takes for ρ to be good to ``tolerance``/√n."""
        count = min(FIRST_ROWS, self._n)
        while True:
            h, coupling, errors = self.leverages(count)
            enough = errors.max() <= tolerance / np.sqrt(self._n)
            if enough or 2 * count > min(MOST_ROWS, self._n):
                return h, coupling, errors
            count *= 2

    def leverages(self, count: int) -> tuple[Floats, Floats, Floats]:
        """h and the coupling, (n, m), and the standard error of each ρ as a share of it."""
        self._D32, self._Q32 = self._D.astype(np.float32), self._Q.astype(np.float32)
        sizes = self.sizes()
        rows = _spread_rows(sizes[:, self._m // 2], count)
        right = np.tile(self._rows(rows), (1, self._m))
        scaling = np.repeat((1.0 / self._diagonal).astype(np.float32), len(rows), axis=1)
        # A tolerance of its own for each penalty, so that no penalty makes up for another.
        tolerances = np.repeat(FORM_TOLERANCE * (1.0 + 1e-6 * np.arange(self._m)), len(rows))
        W, forms = block_conjugate_gradients(self._apply, right, scaling, tolerances)
        forms = forms.reshape(self._m, -1).T
        own = remaining_curvature(forms, self._D[rows])
        steps, s = forms / own, sizes[rows]
        ratio = steps.sum(axis=0) / s.sum(axis=0)
        scatter = np.std(steps / (ratio * s), axis=0, ddof=1)
        if np.any(scatter > LARGEST_SCATTER):
            raise NotConvergedError("leverages are not told by the size of their rows")
        error = np.std(steps - ratio * s, axis=0, ddof=1)
        error = error / np.sqrt(len(rows)) / (ratio * s.mean(axis=0))
        gamma = ratio * sizes
        h = gamma / (1.0 + gamma * self._D)
        h[rows] = forms
        return h, self._coupling(W, rows, own, steps, gamma), error

    def _rows(self, rows: np.ndarray) -> np.ndarray:
        block = self._Z[rows]
        block = block if isinstance(block, np.ndarray) else block.toarray()
        block = np.ascontiguousarray(block.T)
        return np.vstack([block, np.ones((1, len(rows)), np.float32)]) if self._free else block

    def _coupling(
        self, W: np.ndarray, rows: np.ndarray, own: Floats, steps: Floats, gamma: Floats
    ) -> Floats:
        """Σ_{j≠i} A_ij²/(r_i r_j)², proportional to γ_i; as in IterativeHessian."""
        images = self._images(W).reshape(self._n, self._m, -1)
        squares = (images * (1.0 + gamma * self._D)[:, :, None]) ** 2
        sums = squares.sum(axis=0) - squares[rows, :, np.arange(len(rows))].T
        return gamma * ((sums.T / own**2).sum(axis=0) / steps.sum(axis=0))


def design_product(Z: np.ndarray, V: np.ndarray) -> np.ndarray:
    """ZV as an array, in single precision, whether Z is sparse or not."""
    return np.asarray(Z @ V.astype(np.float32, copy=False))


def _spread_rows(sizes: Floats, count: int) -> np.ndarray:
    """Rows at equal steps along the order of their sizes, from a random start."""
    n = len(sizes)
    start = np.random.default_rng(SEED).random()
    places = ((np.arange(count) + start) * n / count).astype(np.intp) % n
    return np.argsort(sizes, kind="stable")[places]
