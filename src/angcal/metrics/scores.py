"""Proper scores, their decomposition, and Bregman divergences between probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

from angcal._typing import Floats
from angcal.metrics.validation import as_probabilities, as_weights, require_length, samples

Scalar = Callable[[Floats], Floats]


# --- Proper scores ---------------------------------------------------------------------------


def brier_score(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """E (p − y)².

    Examples
    --------
    >>> brier_score([0, 1], [0.5, 1.0])
    0.125
    """
    y, p, weight = samples(y_true, y_prob, sample_weight)
    return float(brier_score_loss(y, p, sample_weight=weight, pos_label=1))


def log_loss(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """−E[y log p + (1−y) log(1−p)], with p clipped to [ε, 1−ε], ε = 2.2e-16 (scikit-learn's).

    A sure prediction that fails thus costs 36 nats rather than infinity.

    Examples
    --------
    >>> round(log_loss([0, 1], [0.5, 0.5]), 6)
    0.693147
    """
    y, p, weight = samples(y_true, y_prob, sample_weight)
    return float(sklearn_log_loss(y, p, sample_weight=weight, labels=[0, 1]))


@dataclass(frozen=True)
class ScoreDecomposition:
    """score = miscalibration − discrimination + uncertainty."""

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
    minimises every proper score over non-decreasing functions of p.

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


# --- Bregman divergences ---------------------------------------------------------------------

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
    p_true, p_pred
        The probabilities p and q.
    generator, generator_gradient
        Vectorised φ and φ′. `BREGMAN_GENERATORS` holds ready pairs.

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
