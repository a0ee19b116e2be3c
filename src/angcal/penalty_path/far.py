r"""All penalties on rows that are read anew on every pass: what is kept has no entry for each row.

    matrices     X̃ᵀD_cX̃                                                    of every penalty c
    bins         z̃_i gathered at nodes, each label by itself; X̃ᵀ(s/r_c) for random signs s
    judgement    sums of losses of the curves, of gaps between labels and probabilities, and of what
                 tells the angle

in a pass each: scores, leverages and leave-one-out scores of a block are computed while it is at
hand, and forgotten. Bins are for fitting the curves (a, b) alone, whose losses are those of the
rows themselves: nodes a hundredth of the spread apart move a loss by less than 1e-6 (tests).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import slices
from angcal.leverages.cholesky import SingularHessianError
from angcal.leverages.far import (
    PROBES,
    forms_of_block,
    gram_of_block,
    images_of_block,
    inverse_root,
    packed_signs,
    precision,
    probes_solved,
)
from angcal.leverages.steps import remaining_curvature
from angcal.losses import BlockLoss
from angcal.observables import Observables, count_shift
from angcal.penalty_path.choice import LooCurves
from angcal.penalty_path.classes import ClassCurves
from angcal.penalty_path.cosines import (
    NODES,
    CosineEvidence,
    at_nodes,
    evidence_of,
)
from angcal.penalty_path.curve_fits import CurveFit, binned_curve_fit
from angcal.penalty_path.design import Design
from angcal.rows import FarRows, dense_parts
from angcal.score_bins import BinnedScores
from angcal.solvers.far_newton import scores_of_block
from angcal.solvers.newton_cg import Solution

BIN_STEP, BIN_REACH = 1 / 100, 18.0
"""Nodes are center + spread·sinh(k·step), up to 3·10⁷ spreads away: near each other where curves
bend, and far apart outside."""
NODE_PLACES = np.sinh(np.arange(-BIN_REACH, BIN_REACH + BIN_STEP, BIN_STEP))


@dataclass(frozen=True, eq=False)
class Judged:
    """What `PathCurves` says of every penalty, without anything of the rows; (m,) arrays."""

    log_loss: Floats
    log_loss_se: Floats
    brier_score: Floats
    uncalibrated_log_loss: Floats
    calibrated_ece: Floats
    uncalibrated_ece: Floats
    log_loss_error: Floats
    brier_score_error: Floats
    n_labels: Floats
    n_distinct: Floats
    degrees_of_freedom: Floats
    evidence: CosineEvidence | None

    def ece(self, calibrated: bool) -> Floats:
        """Expected calibration error under every penalty, 15 bins."""
        return self.calibrated_ece if calibrated else self.uncalibrated_ece

    def sampling_error(self, scoring: str, _: Any = None) -> Floats:
        """What sampled leverages leave open of a loss."""
        return getattr(self, f"{scoring}_error")

    def independent_labels(self, index: int) -> float:
        """n, or what n labels of groups are worth under one penalty."""
        return float(self.n_labels[index])

    def distinct_labels(self, index: int) -> float:
        """n, or rows of groups less those that are copies of others, under one penalty."""
        return float(self.n_distinct[index])


def judged(curves: LooCurves | ClassCurves, observables: list[Observables]) -> Judged:
    """The curves of some penalties, whose rows can then be forgotten."""
    evidence = None
    if isinstance(curves, LooCurves):
        evidence = evidence_of(observables, curves.labels, curves.weights)
    return Judged(
        curves.log_loss,
        curves.log_loss_se,
        curves.brier_score,
        curves.uncalibrated_log_loss,
        curves.ece(calibrated=True),
        curves.ece(calibrated=False),
        curves.sampling_error("log_loss", observables),
        curves.sampling_error("brier_score", observables),
        np.array([curves.independent_labels(c) for c in range(len(observables))]),
        np.array([curves.distinct_labels(c) for c in range(len(observables))]),
        np.array([found.degrees_of_freedom for found in observables]),
        evidence,
    )


def joined(parts: list[Judged]) -> Judged:
    """Of one penalty after the other."""
    if len(parts) == 1:
        return parts[0]
    names = [each.name for each in fields(Judged) if each.name != "evidence"]
    found: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in names
    }
    each = [part.evidence for part in parts if part.evidence is not None]

    def stacked(name: str) -> BinnedScores:
        both = [getattr(evidence, name) for evidence in each]
        return BinnedScores(
            NODES,
            np.vstack([one.positive for one in both]),
            np.vstack([one.negative for one in both]),
        )

    evidence = None
    if each:
        couplings = np.concatenate([one.couplings for one in each])
        effects = np.concatenate([np.broadcast_to(e.effects, len(e.couplings)) for e in each])
        evidence = CosineEvidence(stacked("plain"), stacked("leaning"), couplings, effects)
    return Judged(**found, evidence=evidence)


# -- three passes ----------------------------------------------------------------------------


def judge_path(
    design: Design, strengths: Floats, solution: Solution, case_weights: Floats
) -> Judged:
    """Every penalty of two classes judged by three passes, or three for as many as have room."""
    V = solution.coef
    if design.rows.intercept:
        V = np.vstack([V, solution.intercepts])
    return joined(
        [
            _Judge(design, V[:, part], design.scaled(strengths[part]), case_weights).judged()
            for part in slices(len(strengths), plan.PRODUCT_ENTRIES, design.rows.width**2)
        ]
    )


@dataclass(frozen=True)
class _Kind:
    """Loss, whether there is an intercept, and whether leverages are in single precision."""

    loss: BlockLoss
    intercept: bool
    single: bool


class _Judge:
    """Some penalties at their optimum, V, on one design."""

    def __init__(self, design: Design, V: Floats, strengths: Floats, case_weights: Floats) -> None:
        assert isinstance(design.rows, FarRows)
        self.rows, self.V, self.vectors = design.rows, V, (design.labels, case_weights)
        # Fits may weigh classes; cases are weighed as they were given.
        both = [design.labels == label for label in (0.0, 1.0)]
        self.counts = np.array([design.weights[own].sum() for own in both])
        self.factors = self.counts / np.array([case_weights[own].sum() for own in both])
        self.kind, grams, self.roots = self._matrices(design.loss, strengths)
        intercept = self.rows.intercept
        self.level = 1.0 / grams[:, -1, -1] if intercept else np.zeros(len(grams))
        self.center, self.spread = self._spread(grams)

    def _matrices(self, loss: BlockLoss, strengths: Floats) -> tuple[_Kind, Floats, Floats]:
        """(how to multiply, X̃ᵀDX̃, W of WᵀW = Ĥ), from the first pass.

        In single precision where columns are many and none of them is all but a sum of others.
        """
        d = self.rows.shape[1]
        for single in (True, False) if d >= plan.SMALLEST_SINGLE_SIDE else (False,):
            kind = _Kind(loss, self.rows.intercept, single)
            shared = (self.V, self.factors)
            grams = self.rows.sum(partial(_grams_at, kind), shared, self.vectors)
            try:
                pairs = zip(grams, strengths, strict=True)
                found = [inverse_root(M, strength, d) for M, strength in pairs]
            except SingularHessianError:
                if single:
                    continue
                raise
            if not single or max(each for _, each in found) <= plan.LARGEST_SINGLE_INFLATION:
                break
        return kind, grams, np.stack([root for root, _ in found])

    def _spread(self, grams: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of scores, rows weighed by their curvatures."""
        mean = np.zeros(len(grams))
        square = np.einsum("jc,cjk,kc->c", self.V, grams, self.V, optimize=True)
        if self.rows.intercept:
            mean = np.einsum("ck,kc->c", grams[:, -1], self.V) * self.level
            square = square * self.level - mean**2
        else:
            square = 4.0 * square / self.counts.sum()  # D is at most ω/4
        spread = np.sqrt(np.maximum(square, 0.0))
        return mean, np.where(spread > 0, spread, 1.0)

    def judged(self) -> Judged:
        """The second and the third pass."""
        (y, weights), n = self.vectors, self.rows.shape[0]
        own = (self.V, self.factors, self.roots, self.level)
        grid, vectors = (self.center, self.spread), (y, weights, packed_signs(n))
        found = self.rows.sum(partial(_bins_at, self.kind), (*own, *grid), vectors)
        bins, moments, df, back = found
        nodes = self.center + self.spread * NODE_PLACES[:, None]
        fit = binned_curve_fit(nodes, (bins[0], bins[1]), n, float(weights.mean()))
        mean, square = moments / float(weights.sum())
        if self.rows.intercept:
            center, norm = self.center + mean, np.sqrt(np.maximum(square - mean**2, 0.0))
        else:
            center, norm = 0.0 * mean, np.sqrt(square)
        varies = np.isfinite(norm) & (norm > 0)
        scale = np.array([center, np.where(varies, norm, 1.0)])
        inner = probes_solved(self.roots, back)
        curves = np.array([fit.slopes, fit.offsets, *fit.information])
        f = partial(_judge_at, self.kind, fit.targets, fit.mean_weight)
        sums = self.rows.sum(f, (*own, self.counts, inner, curves, scale), (y, weights))
        return _judged_of(sums, weights, df, varies)


def _judged_of(sums: tuple[Floats, ...], weights: Floats, df: Floats, varies: np.ndarray) -> Judged:
    """The figures that the sums of the third pass make."""
    (losses, doubled, squares, plain, brier), gaps, couplings, gathered = sums
    total, m = float(weights.sum()), len(df)
    mean = losses / total
    variance = squares - 2.0 * mean * doubled + mean**2 * float(weights @ weights)
    calibrated, uncalibrated = np.abs(gaps).sum(axis=2) / total
    gathered[:2, ~varies], gathered[2:, ~varies] = np.nan, 0.0
    return Judged(
        log_loss=mean,
        log_loss_se=np.sqrt(np.maximum(variance, 0.0)) / total,
        brier_score=brier / total,
        uncalibrated_log_loss=plain / total,
        calibrated_ece=calibrated,
        uncalibrated_ece=uncalibrated,
        log_loss_error=np.zeros(m),
        brier_score_error=np.zeros(m),
        n_labels=np.full(m, float(len(weights))),
        n_distinct=np.full(m, float(len(weights))),
        degrees_of_freedom=df,
        evidence=CosineEvidence(
            BinnedScores(NODES, *gathered[:2]), BinnedScores(NODES, *gathered[2:]), couplings
        ),
    )


# -- functions of a block --------------------------------------------------------------------


def _pieces(X: Any, m: int) -> Any:
    """Pieces of a block of which a dozen arrays with an entry for each penalty stay small."""
    d = max(X.shape[1], 1)
    return dense_parts(X, 2 * plan.PIECE_ENTRIES * d // max(d, 8 * m))


@dataclass(frozen=True, eq=False)
class _Piece:
    """Scores u, ψ and D of some rows under every penalty, (rows, m) each, and their weights."""

    scores: Floats
    residuals: Floats
    curvatures: Floats
    weights: Floats


def _piece(
    kind: _Kind, x: Floats, V: Floats, factors: Floats, y: Floats, weights: Floats
) -> _Piece:
    U = scores_of_block(x, V, kind.intercept)
    omega = weights * factors[y.astype(np.intp)]
    residual, curvature = kind.loss.terms(U, y[:, None], np)
    return _Piece(U, -omega[:, None] * residual, omega[:, None] * curvature, omega)


def _grams_at(
    kind: _Kind, X: Any, V: Floats, factors: Floats, y: Floats, weights: Floats
) -> Floats:
    """X̃_bᵀD_cX̃_b of every penalty."""
    total = np.zeros((V.shape[1], len(V), len(V)))
    for part, x in _pieces(X, V.shape[1]):
        D = _piece(kind, x, V, factors, y[part], weights[part]).curvatures
        for c, gram in enumerate(total):
            own = np.ascontiguousarray(D[:, c])
            gram += gram_of_block(x, own, kind.intercept, precision(kind.single))
    return total


def _bins_at(
    kind: _Kind,
    X: Any,
    V: Floats,
    factors: Floats,
    roots: Floats,
    level: Floats,
    center: Floats,
    spread: Floats,
    y: Floats,
    weights: Floats,
    packed: np.ndarray,
) -> tuple[Floats, Floats, Floats, Floats]:
    """(weights of both labels at nodes, moments of z̃, Σ hD, X̃ᵀ(s/r)) of every penalty."""
    m = V.shape[1]
    bins, moments = np.zeros((2, len(NODE_PLACES), m)), np.zeros((2, m))
    df, back = np.zeros(m), np.zeros((len(V), m, PROBES))
    for part, x in _pieces(X, m):
        own = _piece(kind, x, V, factors, y[part], weights[part])
        h, probes = forms_of_block(precision(kind.single), x, roots, own.curvatures, packed[part])
        z = _without_own(own, h, level) - center
        df += np.sum(h * own.curvatures, axis=0)
        back += probes
        moments += [weights[part] @ z, weights[part] @ z**2]
        for c, t in enumerate((z / spread).T):
            bins[:, :, c] += _binned(t, y[part], weights[part])
    return bins, moments, df, back


def _without_own(own: _Piece, h: Floats, level: Floats) -> Floats:
    """z̃; see :mod:`angcal.observables`."""
    remaining = remaining_curvature(h, own.curvatures)
    return own.scores - np.maximum(h - level, 0.0) / remaining * own.residuals


def _binned(t: Floats, y: Floats, weights: Floats) -> Floats:
    """Weight of each label at each node, (2, nodes); what is between two is shared by them."""
    last = len(NODE_PLACES) - 2
    below = np.clip((np.arcsinh(t) + BIN_REACH) / BIN_STEP, 0, last).astype(np.intp)
    low, high = NODE_PLACES[below], NODE_PLACES[below + 1]
    upper = weights * np.clip((t - low) / (high - low), 0.0, 1.0)
    place = below + (last + 2) * y.astype(np.intp)
    found = np.bincount(place, weights - upper, 2 * (last + 2))
    found = found + np.bincount(place + 1, upper, 2 * (last + 2))
    return found.astype(np.float64).reshape(2, -1)


def _judge_at(
    kind: _Kind,
    targets: tuple[float, float],
    mean_weight: float,
    X: Any,
    V: Floats,
    factors: Floats,
    roots: Floats,
    level: Floats,
    counts: Floats,
    inner: Floats,
    curves: Floats,
    scale: Floats,
    y: Floats,
    weights: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """(sums of losses, gaps of bins of probabilities, Σ c_i, scores at the nodes of an angle)."""
    m, dtype = V.shape[1], precision(kind.single)
    fit = CurveFit(curves[0], curves[1], tuple(curves[2:]), targets, mean_weight)
    sums, gaps, couplings = np.zeros((5, m)), np.zeros((2, m, 15)), np.zeros(m)
    gathered = np.zeros((4, m, len(NODES)))
    for part, x in _pieces(X, m):
        labels, cases = y[part], weights[part]
        own = _piece(kind, x, V, factors, labels, cases)
        h = forms_of_block(dtype, x, roots, own.curvatures)
        r = remaining_curvature(h, own.curvatures)
        z, bare = _without_own(own, h, level), own.scores - h / r * own.residuals
        honest = bare
        if kind.intercept:
            shift = count_shift(own.weights, counts[labels.astype(np.intp)], counts.sum())
            honest = bare + (np.where(labels == 1.0, 1.0, -1.0) * shift)[:, None]
        found = LooCurves(z, honest, bare, labels, cases, known_fit=fit)
        squares = (labels[:, None] - found.probabilities) ** 2
        each = (cases @ found.losses, cases**2 @ found.losses, cases**2 @ found.losses**2)
        sums += [*each, cases @ found.plain_losses, cases @ squares]
        gaps += [found.gaps(calibrated=True), found.gaps(calibrated=False)]
        images = images_of_block(dtype, kind.intercept, x, inner)
        coupling = np.maximum(images - (h / r) ** 2, 0.0) / r**2
        couplings += coupling.sum(axis=0)
        usual, standard = cases / mean_weight, (z - scale[0]) / scale[1]
        lean = usual[:, None] * own.residuals * coupling / scale[1]
        for c in range(m):
            for place, each_weight in ((0, usual), (2, lean[:, c])):
                gathered[place, c] += at_nodes(standard[:, c], each_weight * labels)
                gathered[place + 1, c] += at_nodes(standard[:, c], each_weight * (1.0 - labels))
    return sums, gaps, couplings, gathered
