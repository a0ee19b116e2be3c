r"""Numbers of one fitted model: its leave-one-out figures, and how far its design is from theory.

Each row is judged by weights that have not seen it. The plain model turns leave-one-out scores z̃
into p = 1/(1 + exp(−z̃)), or into the softmax of the class scores; the calibrated one maps the same
scores through the curve that the model delivers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri, softmax
from scipy.stats import kurtosis, skew
from sklearn.exceptions import ConvergenceWarning

from angcal import plan
from angcal._typing import Floats
from angcal.baselines import SoftmaxTemperature
from angcal.metrics import (
    calibration_line,
    expected_calibration_error,
    hosmer_lemeshow_test,
    kernel_calibration_test,
    spiegelhalter_test,
)
from angcal.metrics.scores import PROBABILITY_FLOOR, judged, mean_and_error, row_losses


@dataclass(frozen=True)
class Side:
    """One of the two models, on rows that it has not seen."""

    # Expected calibration error in 15 bins, for three and more classes that of the likeliest class,
    # and the mean of −log P(label)
    ece: float
    log_loss: float
    confidence: float  # Mean probability of the predicted class
    accuracy: float  # Share of rows whose predicted class is right


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Leave-one-out probabilities of the plain and of the calibrated model."""

    codes: Any  # (n,) int: Classes 0, …, K − 1
    plain: Floats  # (n, K): Probabilities of the classes
    calibrated: Floats  # (n, K)
    # Factor that makes the plain log-odds likeliest, and its standard error: 1 where the plain
    # model is as sure as it should be, below 1 where it is overconfident
    slope: float
    slope_error: float
    # (n,) int or None: Rows that belong together, whose losses are not independent
    groups: np.ndarray | None = None

    @property
    def two(self) -> bool:
        """Whether there are two classes."""
        return self.plain.shape[1] == 2

    def seen_from(self, positive: int) -> LeaveOneOut:
        """The same with the class that is asked about as the second of two."""
        if not self.two or positive == 1:
            return self
        plain, calibrated = (p[:, ::-1] for p in (self.plain, self.calibrated))
        return replace(self, codes=1 - self.codes, plain=plain, calibrated=calibrated)

    def side(self, kind: str) -> Side:
        """Figures of the "plain" or of the "calibrated" model."""
        p = getattr(self, kind)
        right = p.argmax(axis=1) == self.codes
        return Side(
            ece=float(expected_calibration_error(*judged(p, self.codes))),
            log_loss=float(row_losses(p, self.codes).mean()),
            confidence=float(p.max(axis=1).mean()),
            accuracy=float(right.mean()),
        )

    @property
    def beats_shares(self) -> bool:
        """Whether calibrated probabilities clearly do better than the shares of the classes."""
        shares = np.bincount(self.codes) / len(self.codes)
        gains = -np.log(shares[self.codes]) - row_losses(self.calibrated, self.codes)
        gain, error = mean_and_error(gains, np.ones(len(gains)), self.groups)
        return gain > plan.CLEAR * error

    @property
    def gain(self) -> tuple[float, float]:
        """Mean over rows of plain less calibrated log-loss, and the standard error of that mean."""
        plain, calibrated = (row_losses(p, self.codes) for p in (self.plain, self.calibrated))
        return mean_and_error(plain - calibrated, np.ones(len(plain)), self.groups)

    @property
    def ece_gain(self) -> tuple[float, float]:
        """Plain less calibrated ECE, and its bootstrap error over rows, or groups of them."""
        pairs = [judged(p, self.codes) for p in (self.plain, self.calibrated)]
        units = np.arange(len(self.codes)) if self.groups is None else self.groups
        rng, n_units = np.random.default_rng(0), int(units.max()) + 1

        def gain(weights: Floats) -> float:
            plain, calibrated = (
                float(expected_calibration_error(y, p, sample_weight=weights)) for y, p in pairs
            )
            return plain - calibrated

        draws = []
        for _ in range(100 if len(units) < 20_000 else 20):
            times = np.bincount(rng.integers(0, n_units, n_units), minlength=n_units)
            draws.append(gain(times[units].astype(np.float64)))
        return gain(np.ones(len(units))), float(np.std(draws, ddof=1))


def leave_one_out_figures(model: Any, codes: Any) -> LeaveOneOut:
    """Leave-one-out probabilities of a fitted classifier: the one home of these figures.

    Neither the score of a row nor the curve has seen its label (``loo_proba_``). The codes 0, …, K
    − 1 of the training rows are in the order of ``classes_``.
    """
    plain, together = model.plain_loo_proba_, model.observables_.groups
    groups = None if together is None else together.codes
    if len(model.classes_) == 2:
        line = calibration_line(codes, plain[:, 1], groups=groups)
        slope, error = max(line.slope, 0.0), line.slope_error
    else:
        slope, error = softmax_slope(np.log(np.maximum(plain, PROBABILITY_FLOOR)), codes)
    return LeaveOneOut(codes, plain, model.loo_proba_, slope, error, groups)


def softmax_slope(scores: Floats, codes: np.ndarray) -> tuple[float, float]:
    """a ≥ 0 of the likeliest P(y = k) ∝ exp(a·score_k), (n, K) unseen scores, and its error."""
    if np.ptp(scores, axis=1).max() == 0:
        return 0.0, float("inf")
    with warnings.catch_warnings():
        # Useless scores have the slope 0, perfect ones a large slope: both are reported.
        warnings.simplefilter("ignore", ConvergenceWarning)
        slope = 1.0 / SoftmaxTemperature().fit(scores, codes).temperature_
    p = softmax(slope * scores, axis=1)
    center = np.sum(p * scores, axis=1, keepdims=True)
    information = float(np.sum(p * (scores - center) ** 2))
    return slope, 1.0 / np.sqrt(information) if information > 0 else float("inf")


# -- how far the design is from what the theory asks for ---------------------------------------


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Shape of the leave-one-out scores, and how much the influence of rows varies."""

    skewness: float  # Both 0 for a Gaussian
    excess_kurtosis: float
    # Their standard deviations over Gaussian samples of this size, √(6/n) and √(24/n)
    skewness_error: float
    kurtosis_error: float
    normal_quantiles: Floats  # (m,): The QQ picture, at most 300 points
    score_quantiles: Floats  # (m,)
    unevenness: float  # sd(γ_i)/mean(γ_i) of the leave-one-out steps
    top_share: float  # Share of all leverage that the 5% of rows with the highest leverage have

    # Smaller deviations did no harm to the curve in simulations with heavy tails.
    @property
    def is_skewed(self) -> bool:
        """Whether the skewness is large, and larger than chance explains."""
        return abs(self.skewness) > max(0.5, 2.0 * self.skewness_error)

    @property
    def is_tailed(self) -> bool:
        """Whether the kurtosis is large, and larger than chance explains."""
        return abs(self.excess_kurtosis) > max(1.0, 2.0 * self.kurtosis_error)

    @property
    def is_gaussian(self) -> bool:
        """Whether the scores look Gaussian enough, given how many there are."""
        return not (self.is_skewed or self.is_tailed)

    @property
    def shape(self) -> str:
        """The scores' distribution, in words."""
        if self.is_gaussian:
            return "The scores look close enough to Gaussian."
        parts = []
        if self.is_skewed:
            parts.append("skewed to the " + ("right" if self.skewness > 0 else "left"))
        if self.is_tailed:
            parts.append("heavy-tailed" if self.excess_kurtosis > 0 else "flat or two-humped")
        return (
            f"The scores are {' and '.join(parts)}. The theory is for Gaussian ones: look at the "
            "reliability diagram before you trust the curve, and take the angle as a rough guide."
        )

    @property
    def evenness(self) -> str:
        """How much the influence of rows varies, in words."""
        if self.unevenness <= 0.3:
            return "All rows influence the fit about equally, as the theory assumes."
        if self.unevenness <= 0.8:
            return "Rows influence the fit somewhat unequally; the angle's interval allows for it."
        return (
            "A few rows influence the fit much more than others. The angle's interval is widened "
            "for it; expect less of the angle itself."
        )


def diagnose(observables: Any) -> Diagnostics:
    """Diagnostics of a fit of two classes from its observables."""
    scores = observables.calibration_scores
    n, spread = len(scores), float(np.std(scores))
    standard = (scores - scores.mean()) / spread if spread > 0 else np.zeros(n)
    points = min(n, 300)
    levels = (np.arange(points) + 0.5) / points
    return Diagnostics(
        skewness=float(skew(standard)) if spread > 0 else 0.0,
        excess_kurtosis=float(kurtosis(standard)) if spread > 0 else 0.0,
        skewness_error=float(np.sqrt(6.0 / n)),
        kurtosis_error=float(np.sqrt(24.0 / n)),
        normal_quantiles=ndtri(levels),
        score_quantiles=np.quantile(standard, levels),
        unevenness=observables.unevenness,
        top_share=share_of_the_highest(observables.leverages),
    )


def share_of_the_highest(leverages: Floats) -> float:
    """Share of all leverage that the 5% of rows with the highest have; (n,) array."""
    ordered = np.sort(leverages)[::-1]
    top, total = max(1, round(0.05 * len(ordered))), float(ordered.sum())
    return float(ordered[:top].sum()) / total if total > 0 else 0.0


# -- tests of P(y | p) = p -----------------------------------------------------------------------


MOST_ROWS, RESAMPLES = 500, 199
"""Of the kernel test, which compares every row with every other one for each resample: 0.3 s."""


@dataclass(frozen=True)
class PValues:
    """P-values of one test for both models.

    Attributes
    ----------
    name : str
    plain, calibrated : float
        How often chance alone would give a statistic as extreme.
    """

    name: str
    plain: float
    calibrated: float


def calibration_tests(figures: LeaveOneOut, seed: int) -> tuple[PValues, ...]:
    """Spiegelhalter's z, Hosmer–Lemeshow's χ² of two classes, and the kernel test.

    Where rows come in groups, each test takes groups and not rows as independent.
    """
    codes, n, groups = figures.codes, len(figures.codes), figures.groups
    some = np.arange(n)
    if n > MOST_ROWS:
        some = np.sort(np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False))
    whole: dict[str, Any] = {} if groups is None else {"groups": groups}
    part = {name: each[some] for name, each in whole.items()}
    both = {"plain": figures.plain, "calibrated": figures.calibrated}
    seen: dict[str, Any] = {"n_resamples": RESAMPLES, "random_state": seed, **part}
    rows = [
        {kind: spiegelhalter_test(codes, p, **whole) for kind, p in both.items()},
        {kind: kernel_calibration_test(codes[some], p[some], **seen) for kind, p in both.items()},
    ]
    names = ["Spiegelhalter's z", "Kernel test" + (f", {MOST_ROWS} rows" if n > MOST_ROWS else "")]
    if figures.two:
        names.insert(1, "Hosmer–Lemeshow, ten bins")
        of_bins = {kind: hosmer_lemeshow_test(codes, p[:, 1], **whole) for kind, p in both.items()}
        rows.insert(1, of_bins)
    return tuple(
        PValues(name, row["plain"].p_value, row["calibrated"].p_value)
        for name, row in zip(names, rows, strict=True)
    )
