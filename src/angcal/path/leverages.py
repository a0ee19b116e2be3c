r"""Leverages h_ic = z̃_iᵀĤ_c z̃_i of every row under every penalty, Ĥ_c = (Z̃ᵀD_cZ̃ + q_c·I)⁻¹.

*Exact*: one factorisation for each penalty, all of them in one batch where they are small.
*Sampled*: as in :mod:`angcal.hessian.iterative`, γ_i = ρ_c·s_ic with the sizes
s_ic = Σ_j z̃_ij²/m_jc, m_jc the Hessian's diagonal, and ρ_c from the γ_i of a few rows, found by
conjugate gradients. The rows are the same for every penalty: their luck of the draw moves the whole
curve and not the place of its minimum, and all of them share products with Z.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from angcal._typing import Floats
from angcal.fitting import LinearFit
from angcal.hessian.block_cg import NotConvergedError, block_conjugate_gradients
from angcal.hessian.iterative import (
    LARGEST_SCATTER,
    SEED,
    STEP_TOLERANCE,
)
from angcal.hessian.row_sizes import sparse_row_sizes
from angcal.losses import Logistic
from angcal.observables import Observables, observe, remaining_curvature
from angcal.path.design import Design
from angcal.path.solver import PathSolution
from angcal.penalties import Ridge

# How far the form of a row may be off; its rest is extrapolated, and rows differ by far more.
FORM_TOLERANCE = 5e-3
FIRST_ROWS, MOST_ROWS = 8, 64
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
    rounds = list(_rounds(_order(design)))
    for start in range(0, m, PENALTIES_AT_ONCE):
        columns = np.arange(start, min(start + PENALTIES_AT_ONCE, m))
        sample = _Sample(design, strengths[columns], solution.scores[:, columns])
        try:
            leverages, coupling, errors = sample.leverages(rounds, tolerance)
        except NotConvergedError:
            found += [_observe_exactly(design, strengths, solution, int(c)) for c in columns]
            continue
        for j, c in enumerate(columns):
            part = _Leverages(leverages[:, j], coupling[:, j], "randomised", float(errors[j]))
            found.append(_assemble(design, solution, int(c), part))
    return found


def moved_to(found: Observables, design: Design, solution: PathSolution) -> Observables:
    """The observables of a fit that was finished a little better, its leverages unchanged.

    The leverages follow the weights' own relative accuracy, which is that of the path: far more
    than is asked of them.
    """
    return _assemble(design, solution, 0, found)


def _assemble(
    design: Design, solution: PathSolution, column: int, leverages: Observables | _Leverages
) -> Observables:
    u = solution.scores[:, column]
    loss = Logistic()
    curvatures = design.weights * loss.hessian(u, design.labels)
    return Observables(
        scores=u,
        linear_scores=u - solution.intercepts[column],
        residuals=-design.weights * loss.gradient(u, design.labels),
        curvatures=curvatures,
        leverages=leverages.leverages,
        coupling=leverages.coupling,
        intercept_leverage=1.0 / float(curvatures.sum()) if design.fit_intercept else 0.0,
        n_features=design.n_features,
        has_intercept=design.fit_intercept,
        side=leverages.side,
        step_error=leverages.step_error,
    )


@dataclass(frozen=True, eq=False)
class _Leverages:
    """What one penalty's leverages are, and how they were come by."""

    leverages: Floats
    coupling: Floats
    side: str
    step_error: float = 0.0


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
    # Σ_{j≠i} A_ij²/(r_i r_j)² with A = Z̃ĤZ̃ᵀ, hence Σ_j A_ij²/r_j² = z̃_iᵀĤ(Z̃ᵀr⁻²Z̃)Ĥz̃_i.
    r = remaining_curvature(h, D)
    half = Z / r.T[:, :, None]
    rows = np.einsum("cij,cij->ic", images @ (half.transpose(0, 2, 1) @ half), images)
    rows -= (h / r) ** 2
    coupling = np.maximum(rows, 0.0) / r**2
    return [
        _assemble(design, solution, c, _Leverages(h[:, c], coupling[:, c], "primal"))
        for c in range(m)
    ]


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
        self._D32, self._Q32 = self._D.astype(np.float32), self._Q.astype(np.float32)
        self._diagonal = np.maximum(moments + self._Q, np.finfo(np.float32).tiny)

    def sizes(self) -> Floats:
        """s_ic = Σ_j z̃_ij²/m_jc; of sparse rows, without their own share of m_jc."""
        inverse = 1.0 / self._diagonal
        if sparse.issparse(self._Z):
            parts = zip(self._diagonal[: self._k].T, self._D.T, strict=True)
            sizes = np.column_stack([sparse_row_sizes(self._Z, m, D) for m, D in parts])
        else:
            product = design_product(self._design.squares, inverse[: self._k])
            sizes = np.asarray(product, dtype=np.float64)
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

    def leverages(
        self, rounds: list[np.ndarray], tolerance: float
    ) -> tuple[Floats, Floats, Floats]:
        """h and the coupling, (n, m), and the standard error of each ρ as a share of it.

        From as many rounds of rows as it takes for ρ to be good to ``tolerance``/√n, if all of
        them will do.
        """
        sizes = self.sizes()
        rows, forms, sums = np.empty(0, dtype=np.intp), np.empty((0, self._m)), []
        for fresh in rounds:
            W, reached = self._solve(fresh)
            rows, forms = np.append(rows, fresh), np.vstack([forms, reached])
            own = remaining_curvature(forms, self._D[rows])
            steps, s = forms / own, sizes[rows]
            ratio = steps.sum(axis=0) / s.sum(axis=0)
            error = np.std(steps - ratio * s, axis=0, ddof=1)
            error = error / np.sqrt(len(rows)) / (ratio * s.mean(axis=0))
            gamma = ratio * sizes
            sums.append(self._squares(W, fresh, gamma))
            if error.max() <= tolerance / np.sqrt(self._n):
                break
        scatter = np.std(steps / (ratio * s), axis=0, ddof=1)
        if not np.all(scatter <= LARGEST_SCATTER):
            raise NotConvergedError("leverages are not told by the size of their rows")
        h = gamma / (1.0 + gamma * self._D)
        h[rows] = forms
        # Proportional to γ_i, as in IterativeHessian.
        strength = (np.vstack(sums) / own**2).sum(axis=0) / steps.sum(axis=0)
        return h, gamma * strength, error

    def _solve(self, rows: np.ndarray) -> tuple[np.ndarray, Floats]:
        """Ĥz̃_i and z̃_iᵀĤz̃_i for some rows under every penalty."""
        right = np.tile(self._rows(rows), (1, self._m))
        scaling = np.repeat((1.0 / self._diagonal).astype(np.float32), len(rows), axis=1)
        # A tolerance of its own for each penalty, so that no penalty makes up for another.
        tolerances = np.repeat(FORM_TOLERANCE * (1.0 + 1e-6 * np.arange(self._m)), len(rows))
        W, forms = block_conjugate_gradients(self._apply, right, scaling, tolerances)
        return W, forms.reshape(self._m, -1).T

    def _rows(self, rows: np.ndarray) -> np.ndarray:
        block = self._Z[rows]
        block = block if isinstance(block, np.ndarray) else block.toarray()
        block = np.ascontiguousarray(block.T)
        return np.vstack([block, np.ones((1, len(rows)), np.float32)]) if self._free else block

    def _squares(self, W: np.ndarray, rows: np.ndarray, gamma: Floats) -> Floats:
        """Σ_{j≠i} A_ij²/r_j² of some rows, A = Z̃ĤZ̃ᵀ and 1/r = 1 + γD, under every penalty."""
        images = self._images(W).reshape(self._n, self._m, -1)
        squares = (images * (1.0 + gamma * self._D)[:, :, None]) ** 2
        return squares.sum(axis=0).T - squares[rows, :, np.arange(len(rows))]


def design_product(Z: np.ndarray, V: np.ndarray) -> np.ndarray:
    """ZV as an array, in single precision, whether Z is sparse or not."""
    return np.asarray(Z @ V.astype(np.float32, copy=False))


def _order(design: Design) -> np.ndarray:
    """Rows from the smallest to the largest, the same for every penalty."""
    typical = max(design.typical, 1e-30)
    return np.argsort(design_product(design.squares, 1.0 / (design.moments + typical)))


def _rounds(order: np.ndarray) -> Iterator[np.ndarray]:
    """Rows at equal steps along the order from a random start, a few at a time, none twice."""
    n = len(order)
    most = int(min(MOST_ROWS, n // FIRST_ROWS * FIRST_ROWS)) or n
    start = np.random.default_rng(SEED).random()
    spread = order[((np.arange(most) + start) * n / most).astype(np.intp) % n]
    rounds = max(most // FIRST_ROWS, 1)
    # Each round takes every so-manieth of them, and the second lies between those of the first.
    for offset in sorted(range(rounds), key=lambda r: int(f"{r:06b}"[::-1], 2)):
        yield spread[offset::rounds]
