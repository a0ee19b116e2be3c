r"""Whether labels are too few to tell what probabilities are worth.

Two differences of leave-one-out log-losses decide, each with its standard error:

- to the shares of the classes. Where the gain is below three errors, or less than six errors above
  what it would be without a signal, −Σ_k q_k log(q_k/p_k) with q the shares and p the
  probabilities, chance may explain it. It matters where that costs more than 0.08 nats;
- to the model's own probabilities. Where the difference may be above 0.1 nats, at two errors.

Where the shares are better by two errors no more labels are asked for: the model is worse. Rows of
groups count as the labels that they are worth, and so do copies of a row. Of fewer than 25 labels
neither tells anything, nor of fewer than 150 in several classes of which one has fewer than five.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.curve import noise_share
from angcal.estimators.training import Training
from angcal.leverages.groups import Groups, prevalence_effect
from angcal.metrics.scores import PROBABILITY_FLOOR, mean_and_error
from angcal.multiclass.choice import prevalence
from angcal.notices import AngleWarning, warn
from angcal.observables import usual_weights

HARM, COST = 0.1, 0.08
"""Nats that may not be lost without a word; and the cost of following chance that speaks for such a
loss, as on pure noise costs of 0.09 became losses of 0.1."""
ERRORS_OF_GAIN, ERRORS_OF_CHANCE, ERRORS_OF_LOSS = 3.0, 6.0, 2.0
ROWS_OF_AN_ERROR = 5.0
"""These, and a share of 5/n more as few rows hardly tell the error itself, leave 4 without a word
of 122 drawn designs of 20 to 200 rows that lost more than 0.1 nats (30 with errors of the spread of
the losses alone). Six errors are not too many: scores that are left out share their labels, which
doubles the variance of sums over them, and penalty and curve were chosen by such sums. How often a
word is said: docs/research.md."""
FEWEST_LABELS, FEWEST_WITH_RARE_CLASSES, FEWEST_OF_A_CLASS = 25, 150, 5
"""Of 712 drawn designs with 12 to 40 rows 18 lost more than 0.1 nats without a word; the two
differences name twelve of them, and these numbers most of the others; of 776 with 150 and 200 rows
none did."""
NATS_OF_A_CURVE = 10.0
"""What the parameters of a curve may have added to the log-likelihood of all labels, by far."""


@dataclass(frozen=True)
class Difference:
    """What labels lose more under some probabilities than under others, in nats.

    Attributes
    ----------
    mean : float
    spread : float
        Its standard error, by the spread over the rows.
    if_first, if_second : (float, float)
        Mean and standard deviation, if the first or the second probabilities were the true ones.
        Luck makes losses small and alike, and a spread with them.
    """

    mean: float
    spread: float
    if_first: tuple[float, float]
    if_second: tuple[float, float]

    def doubted(self, more: float) -> Difference:
        """The same with so much more of a mean, and errors twice as large."""
        first, second = ((mean, 2.0 * error) for mean, error in (self.if_first, self.if_second))
        return Difference(self.mean + more, 2.0 * self.spread, first, second)


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes of rows with weights, and which of them are one label.

    Attributes
    ----------
    codes, weights : (n,) arrays
    n_classes : int
    groups : Groups or None
        Rows of a group, or copies of a row.
    """

    codes: np.ndarray
    weights: Floats
    n_classes: int
    groups: Groups | None = None

    @cached_property
    def count(self) -> float:
        """Labels: of groups what their labels are worth."""
        own = np.eye(self.n_classes)[self.codes]
        return len(self.codes) / prevalence_effect(own, self.weights, self.groups)

    @property
    def rarest(self) -> int:
        """Labels of the rarest class, of groups those that have it."""
        if self.groups is None:
            return int(np.bincount(self.codes, minlength=self.n_classes).min())
        own = np.eye(self.n_classes)[self.codes]
        return int(np.sum(self.groups.sums(own) > 0, axis=0).min())

    @cached_property
    def shares_without(self) -> Floats:
        """(n, K) shares of the classes among the other rows or groups, one of each class added."""
        weights = usual_weights(self.weights)
        return prevalence(self.codes, weights, self.n_classes, self.groups).left_out

    def difference(self, first: Floats, second: Floats) -> Difference:
        """Of the losses under (n, K) probabilities, the first's less the second's."""
        ratios = np.log(second) - np.log(first)
        numbers = None if self.groups is None else self.groups.codes
        own = ratios[np.arange(len(self.codes)), self.codes]
        mean, spread = mean_and_error(own, self.weights, numbers)
        share, times = self.weights / self.weights.sum(), len(self.codes) / self.count
        # Few rows hardly tell the error itself.
        few = 1.0 + ROWS_OF_AN_ERROR / self.count

        def under(p: Floats) -> tuple[float, float]:
            expected = np.sum(p * ratios, axis=1)
            squares = np.sum(p * (ratios - expected[:, None]) ** 2, axis=1)
            return float(share @ expected), few * float(np.sqrt(times * (share**2 @ squares)))

        return Difference(mean, few * spread, under(first), under(second))


def warn_if_too_few(model: Any, training: Training, groups: Groups | None) -> None:
    """Say so where labels leave open whether fitted probabilities do harm.

    Parameters
    ----------
    model : AngularBase
        Fitted.
    training : Training
    groups : Groups or None
        Rows that are one label: of a group, or copies of a row.
    """
    elsewhere = training.is_far or training.on_device
    if elsewhere or len(training.codes) > plan.MOST_JUDGED_ROWS or model.angle_.is_fallback:
        return
    codes = training.codes.astype(np.intp)
    labels = Labels(codes, training.weights, training.n_classes, groups)
    many = training.n_classes > 2 and labels.count < FEWEST_WITH_RARE_CLASSES
    if labels.count < FEWEST_LABELS or (many and labels.rarest < FEWEST_OF_A_CLASS):
        unit = "" if groups is None else " independent labels by its groups"
        if groups is not None and training.groups is None:
            unit = " labels of rows that are no copies"
        count = f"{int(labels.count + 0.01)}{unit}"
        warn(
            f"Too few labels to tell what probabilities are worth: y has {count}, {labels.rarest} "
            "of them of its rarest class, and leave-one-out figures of so few are mostly chance.",
            AngleWarning,
        )
        return
    if _is_beyond_doubt(model, labels):
        return
    p, own = (
        np.maximum(each, PROBABILITY_FLOOR) for each in (model.loo_proba_, model.plain_loo_proba_)
    )
    if p.shape != (len(codes), training.n_classes):
        return  # of some rows alone
    told = bool(getattr(getattr(model, "calibration_", None), "doubt", ""))
    message = _beside_shares(labels.difference(labels.shares_without, p), told)
    message = message or _beside_plain(labels.difference(p, own))
    if message:
        warn(message, AngleWarning)


def _beside_shares(gain: Difference, told: bool) -> str:
    """What is to be said of the loss beside that of the shares of the classes, if anything."""
    error = max(gain.spread, gain.if_second[1])
    chance, error_of_chance = gain.if_first
    if -chance <= COST:
        return ""
    if gain.mean < -ERRORS_OF_LOSS * error:
        return (
            "Probabilities are worse than the shares of the classes: the leave-one-out log-loss is "
            f"{-gain.mean:.2g} ± {error:.2g} above that of the shares. Check a link, an angle or "
            "groups that were given; without these a stronger penalty or fewer columns may help."
        )
    seen = gain.mean > ERRORS_OF_GAIN * error
    if told or (seen and gain.mean - chance > ERRORS_OF_CHANCE * error_of_chance):
        return ""
    side = "below" if gain.mean > 0.0 else "above"
    beside = f"the leave-one-out log-loss is {abs(gain.mean):.2g} ± {error:.2g} {side}"
    if seen:
        return (
            f"Too few labels to be sure of probabilities: {beside} that of the shares of the "
            "classes, but leave-one-out figures of so few labels are lucky together. Probabilities "
            "may be too sure; more labels, or fewer columns, would tell."
        )
    return (
        f"Too few labels to tell a signal from chance: {beside} that of the shares of the classes, "
        f"and without a signal it would be {-chance:.2g} ± {error_of_chance:.2g} above. More "
        "labels, or fewer columns, would tell."
    )


def _beside_plain(loss: Difference) -> str:
    """What is to be said of the loss beside that of the model's own probabilities, if anything."""
    error = max(loss.spread, loss.if_first[1], loss.if_second[1])
    if loss.mean + ERRORS_OF_LOSS * error <= HARM:
        return ""
    side = "above" if loss.mean > 0.0 else "below"
    return (
        "Too few labels to tell whether calibration helps: the leave-one-out log-loss is "
        f"{abs(loss.mean):.2g} ± {error:.2g} {side} that of the model's own probabilities "
        "(plain_loo_proba_). More labels, or fewer columns, would tell."
    )


def _is_beyond_doubt(model: Any, labels: Labels) -> bool:
    """Whether nothing is to be said at twice the errors, of the curve of `link_` and `angle_`.

    Its own three parameters are no more than 3/(2n) nats of the loss, and leave-one-out
    probabilities take ten times as long.
    """
    left = getattr(model, "_left_out", None)
    posterior = getattr(left, "posterior", None)  # of one curve of an unknown link
    if labels.n_classes > 2 or labels.groups is not None or left is None or posterior is None:
        return False
    link, c = model.link_, model.angle_.cosine
    scores = left.curve.scale.standardize(left.scores)
    centers = link.scale * c * scores + link.offset
    rising = posterior.family.jet(centers, link.scale * noise_share(c))[0]
    pairs = (np.column_stack([1.0 - rising, rising]), left.plain())
    p, own = (np.maximum(each, PROBABILITY_FLOOR) for each in pairs)
    slack = NATS_OF_A_CURVE / len(scores)
    gain = labels.difference(labels.shares_without, p).doubted(-slack)
    loss = labels.difference(p, own).doubted(slack)
    return not _beside_shares(gain, False) and not _beside_plain(loss)
