"""Proper scores, their decomposition, and divergences between probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr, xlogy
from sklearn.isotonic import IsotonicRegression

from angcal._typing import Floats
from angcal.metrics.validation import (
    Classes,
    Codes,
    as_probabilities,
    as_probability_matrix,
    as_weights,
    class_samples,
    indicators,
    require_length,
    samples,
)

Scalar = Callable[[Floats], Floats]

PROBABILITY_FLOOR = 1e-12
"""How near to 0 and 1 a row's loss looks: one sure miss costs 28 nats in a table of means."""


# --- Proper scores ---------------------------------------------------------------------------


def binary_samples(
    y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Codes, Floats, Floats]:
    """`samples` as codes, two columns of probabilities, and weights."""
    y, p, weight = samples(y_true, y_prob, sample_weight)
    return y.astype(np.intp), both_classes(p), weight


def both_classes(positive: Floats) -> Floats:
    """(n, 2) probabilities from those of the second class."""
    return np.column_stack([1.0 - positive, positive])


def _mean_log_loss(codes: Codes, P: Floats, weight: Floats) -> float:
    epsilon = np.finfo(np.float64).eps
    of_label = np.clip(P[np.arange(codes.size), codes], epsilon, 1.0 - epsilon)
    return float(np.average(-np.log(of_label), weights=weight))


def _mean_brier(codes: Codes, P: Floats, weight: Floats) -> float:
    square = np.sum((P - indicators(codes, P.shape[1])) ** 2, axis=1)
    return 0.5 * float(np.average(square, weights=weight))


def brier_score(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """E (p − y)².

    Parameters
    ----------
    y_true, y_prob, sample_weight : array-like of shape (n,)
        Labels 0/1, predicted P(y = 1), and weights (optional).

    Returns
    -------
    float
        The score, in [0, 1]; lower is better.

    See Also
    --------
    multiclass_brier_score : For any number of classes.
    brier_decomposition : Its parts.

    Examples
    --------
    >>> brier_score([0, 1], [0.5, 1.0])
    0.125
    """
    return _mean_brier(*binary_samples(y_true, y_prob, sample_weight))


def multiclass_brier_score(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    scale_by_half: bool = True,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """½ E Σ_k (p_k − 1{y = k})², between 0 and 1.

    Parameters
    ----------
    y_true, y_prob : array-like
        Labels of shape (n,), and their predicted probabilities of shape (n, K).
    scale_by_half : bool, default=True
        The half makes K = 2 the binary Brier score. False leaves it out, which is what scikit-learn
        reports for K >= 3.
    classes, sample_weight : array-like, optional
        The labels in the order of the columns, by default 0, …, K−1; and the weights.

    Returns
    -------
    float
        The score; lower is better.

    See Also
    --------
    brier_score : For two classes and one column.

    Examples
    --------
    >>> round(multiclass_brier_score([0], [[0.5, 0.3, 0.2]]), 6)
    0.19
    """
    halved = _mean_brier(*class_samples(y_true, y_prob, classes, sample_weight))
    return halved if scale_by_half else 2.0 * halved


def log_loss(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """−E[y log p + (1−y) log(1−p)], with p clipped to [ε, 1−ε], ε = 2.2e-16 (scikit-learn's).

    A sure prediction that fails thus costs 36 nats rather than infinity.

    Parameters
    ----------
    y_true, y_prob, sample_weight : array-like of shape (n,)
        Labels 0/1, predicted P(y = 1), and weights (optional).

    Returns
    -------
    float
        The mean loss in nats; lower is better.

    See Also
    --------
    multiclass_log_loss : For any number of classes.

    Examples
    --------
    >>> round(log_loss([0, 1], [0.5, 0.5]), 6)
    0.693147
    """
    return _mean_log_loss(*binary_samples(y_true, y_prob, sample_weight))


def multiclass_log_loss(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """−E log p_y, with p_y clipped to [ε, 1−ε], ε = 2.2e-16 (scikit-learn's).

    Parameters
    ----------
    y_true, y_prob : array-like
        Labels of shape (n,), and their predicted probabilities of shape (n, K).
    classes, sample_weight : array-like, optional
        The labels in the order of the columns, by default 0, …, K−1; and the weights.

    Returns
    -------
    float
        The mean loss in nats; lower is better.

    See Also
    --------
    log_loss : For two classes and one column.

    Examples
    --------
    >>> round(multiclass_log_loss([0, 2], [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]), 6)
    0.693147
    """
    return _mean_log_loss(*class_samples(y_true, y_prob, classes, sample_weight))


def row_losses(P: Floats, codes: Codes) -> Floats:
    """−log P(label) of every row, from (…, n, K) probabilities; P is kept above 1e-12."""
    labels = np.broadcast_to(codes[:, None], (*P.shape[:-1], 1))
    of_label = np.take_along_axis(P, labels, axis=-1)[..., 0]
    return -np.log(np.clip(of_label, PROBABILITY_FLOOR, 1.0))


def judged(P: Floats, codes: Codes) -> tuple[Any, Floats]:
    """(0/1, probability) of every row: of the second of two classes, of the likeliest of more."""
    if P.shape[1] == 2:
        return codes, P[:, 1]
    return P.argmax(axis=1) == codes, P.max(axis=1)


def mean_and_error(
    values: Floats, weights: Floats, groups: np.ndarray | None = None
) -> tuple[float, float]:
    """Σ ω_i v_i/W and √(Σ ω_i²(v_i − mean)²)/W: a weighted mean and its standard error.

    With a group number for each row, deviations are summed over each group before they are
    squared: rows of a group are not independent.
    """
    mean = float(np.average(values, weights=weights))
    deviations = weights * (values - mean)
    if groups is not None:
        deviations = np.bincount(groups, deviations).astype(np.float64)
    return mean, float(np.sqrt(np.sum(deviations**2)) / weights.sum())


# --- Decomposition ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreDecomposition:
    """score = miscalibration − discrimination + uncertainty.

    Attributes
    ----------
    miscalibration, discrimination, uncertainty : float
        The three parts, all >= 0.

    See Also
    --------
    brier_decomposition : Computes it.

    Examples
    --------
    >>> brier_decomposition([0, 1], [0.5, 0.5]).score
    0.25
    """

    miscalibration: float
    discrimination: float
    uncertainty: float

    @property
    def score(self) -> float:
        """The mean score that the three parts add up to."""
        return self.miscalibration - self.discrimination + self.uncertainty


def brier_decomposition(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    score: Literal["brier", "log"] = "brier",
    sample_weight: ArrayLike | None = None,
) -> ScoreDecomposition:
    """S(p) = [S(p) − S(q)] − [S(ȳ) − S(q)] + S(ȳ), q the isotonic recalibration of p (CORP).

    The brackets are miscalibration and discrimination, S(ȳ) is the uncertainty. All are >= 0, as q
    minimizes every proper score over non-decreasing functions of p.

    Parameters
    ----------
    y_true, y_prob : array-like of shape (n,)
        Labels 0/1 and predicted P(y = 1).
    score : {"brier", "log"}, default="brier"
        S.
    sample_weight : array-like of shape (n,), optional
        Weights.

    Returns
    -------
    ScoreDecomposition
        The three parts.

    See Also
    --------
    brier_score, log_loss : The scores.

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), Stable reliability diagrams for probabilistic classifiers,
    PNAS 118.

    Examples
    --------
    >>> brier_decomposition([0, 1], [0.5, 0.5])
    ScoreDecomposition(miscalibration=0.0, discrimination=0.0, uncertainty=0.25)
    """
    scores = {"brier": brier_score, "log": log_loss}
    if score not in scores:
        raise ValueError(f"score={score!r} must be one of {sorted(scores)}.")
    y, p, weight = samples(y_true, y_prob, sample_weight)
    isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    recalibrated = isotonic.fit(p, y, sample_weight=weight).predict(p)
    base_rate = np.full_like(p, np.clip(np.average(y, weights=weight), 0.0, 1.0))
    of_p, of_q, of_base = (
        scores[score](y, f, sample_weight=weight) for f in (p, recalibrated, base_rate)
    )
    return ScoreDecomposition(of_p - of_q, of_base - of_q, of_base)


# --- Divergences from known probabilities ----------------------------------------------------

BREGMAN_GENERATORS: Mapping[str, tuple[Scalar, Scalar]] = MappingProxyType(
    {
        "squared": (lambda t: 0.5 * t**2, lambda t: t),
        "kl": (lambda t: xlogy(t, t), lambda t: np.log(t) + 1.0),
        "itakura-saito": (lambda t: -np.log(t), lambda t: -1.0 / t),
    }
)
"""Named convex φ with φ′, giving (p−q)², KL(p‖q) and Σ (p/q − log p/q − 1) over both classes."""


def bregman_divergence(
    p_true: ArrayLike, p_pred: ArrayLike, generator: Scalar, generator_gradient: Scalar
) -> Floats:
    """D(p, q) = Σ_{(a,b) ∈ {(p,q), (1−p,1−q)}} φ(a) − φ(b) − φ′(b)(a − b), one per sample.

    This is the Bregman divergence between the vectors (p, 1−p) and (q, 1−q) whose generator sums a
    convex scalar φ over the entries.

    Parameters
    ----------
    p_true, p_pred : array-like of shape (n,)
        The probabilities p and q.
    generator, generator_gradient : callable
        Vectorized φ and φ′. `BREGMAN_GENERATORS` holds ready pairs.

    Returns
    -------
    ndarray of shape (n,)
        The divergences, >= 0.

    See Also
    --------
    mean_bregman_divergence : Their mean, by name.

    Examples
    --------
    >>> bregman_divergence([0.5], [0.25], *BREGMAN_GENERATORS["squared"])
    array([0.0625])
    """
    p = as_probabilities(p_true, "p_true")
    q = as_probabilities(p_pred, "p_pred")
    require_length(q, "p_pred", p.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = sum(
            generator(a) - generator(b) - generator_gradient(b) * (a - b)
            for a, b in ((p, q), (1.0 - p, 1.0 - q))
        )
    divergence = np.where(p == q, 0.0, divergence)
    bad = np.flatnonzero(np.isnan(divergence))
    if bad.size:
        raise ValueError(
            f"the divergence of p_true={p[bad[0]]} from p_pred={q[bad[0]]} is undefined for this "
            "generator; keep p_pred strictly inside (0, 1)."
        )
    return np.asarray(divergence, dtype=np.float64)


def mean_bregman_divergence(
    p_true: ArrayLike,
    p_pred: ArrayLike,
    divergence: str = "kl",
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """E D(p_true, p_pred) for a divergence named in `BREGMAN_GENERATORS`.

    Parameters
    ----------
    p_true, p_pred : array-like of shape (n,)
        True and predicted probabilities.
    divergence : {"kl", "squared", "itakura-saito"}, default="kl"
        D.
    sample_weight : array-like of shape (n,), optional
        Weights.

    Returns
    -------
    float
        The mean divergence.

    See Also
    --------
    true_probability_divergence : For any number of classes.

    Examples
    --------
    >>> round(mean_bregman_divergence([0.5], [0.25], "kl"), 6)
    0.143841
    """
    if divergence not in BREGMAN_GENERATORS:
        raise ValueError(
            f"divergence={divergence!r} must be one of {sorted(BREGMAN_GENERATORS)}; "
            "for another, call bregman_divergence with its generator."
        )
    each = bregman_divergence(p_true, p_pred, *BREGMAN_GENERATORS[divergence])
    return float(np.average(each, weights=as_weights(sample_weight, each.size)))


@dataclass(frozen=True)
class ProbabilityDivergence:
    """Mean distances of predictions q from true probabilities p; all zero at q = p.

    Attributes
    ----------
    kl : float
        E Σ_k p_k log(p_k/q_k), the excess log-loss; infinite where a q_k = 0 meets p_k > 0.
    brier : float
        ½ E Σ_k (p_k − q_k)², the excess of `multiclass_brier_score`.
    total_variation : float
        ½ E Σ_k |p_k − q_k|.

    See Also
    --------
    true_probability_divergence : Computes it.

    Examples
    --------
    >>> true_probability_divergence([[0.5, 0.5]], [[0.75, 0.25]]).brier
    0.0625
    """

    kl: float
    brier: float
    total_variation: float


def true_probability_divergence(
    p_true: ArrayLike, p_pred: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> ProbabilityDivergence:
    """E KL(p‖q), ½ E ‖p − q‖² and ½ E ‖p − q‖₁, where the truth p is known.

    Parameters
    ----------
    p_true, p_pred : array-like of shape (n, K)
        True and predicted probabilities.
    sample_weight : array-like of shape (n,), optional
        Weights.

    Returns
    -------
    ProbabilityDivergence
        The three means.

    See Also
    --------
    bregman_divergence : Other divergences, for two classes.

    Examples
    --------
    >>> true_probability_divergence([[0.5, 0.5]], [[0.75, 0.25]]).total_variation
    0.25
    """
    p = as_probability_matrix(p_true, "p_true")
    q = as_probability_matrix(p_pred, "p_pred")
    if p.shape != q.shape:
        raise ValueError(
            f"p_pred has shape {q.shape} but p_true has {p.shape}; pass the same rows and classes."
        )
    share = as_weights(sample_weight, len(p))
    share = share / share.sum()
    return ProbabilityDivergence(
        # Summed over positive weights only: 0 · ∞ is not a number.
        kl=float(share[share > 0.0] @ rel_entr(p, q)[share > 0.0].sum(axis=1)),
        brier=0.5 * float(share @ np.sum((p - q) ** 2, axis=1)),
        total_variation=0.5 * float(share @ np.abs(p - q).sum(axis=1)),
    )
