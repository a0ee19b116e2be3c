r"""Whether labels are too few to tell what probabilities are worth.

Two differences of leave-one-out log-losses decide, each with its standard error:

- to the shares of the classes. Where the gain is below 2.5 errors chance may explain it. It matters
  where following chance costs much, Σ_k q_k log(q_k/p_k) > 0.08 nats with q the shares and p the
  probabilities;
- to the model's own probabilities. Where the difference may be above 0.1 nats, at two errors.

Where the shares are better by 2.5 errors no more labels are asked for: the model is worse. Rows of
groups count as the labels that they are worth, and copies of a row as one. Of fewer than 25 rows
neither tells anything, nor of fewer than 150 in several classes of which one has fewer than five.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from angcal._typing import Floats
from angcal.curve import noise_share
from angcal.estimators.training import Training
from angcal.leverages.groups import prevalence_effect
from angcal.metrics.scores import PROBABILITY_FLOOR, mean_and_error
from angcal.multiclass.choice import prevalence
from angcal.notices import AngleWarning, warn
from angcal.observables import usual_weights

HARM, COST = 0.1, 0.08
"""Nats that may not be lost without a word; and the cost of following chance that speaks for such a
loss, as on pure noise costs of 0.09 became losses of 0.1."""
ERRORS_OF_GAIN, ERRORS_OF_LOSS = 2.5, 2.0
ROWS_OF_AN_ERROR = 5.0
"""These, and a share of 5/n more as few rows hardly tell the error itself, leave 3 without a word
of 122 drawn designs of 20 to 200 rows that lost more than 0.1 nats (30 with errors of the spread of
the losses alone), and 7 of 80 fits to 30 to 150 rows of real sets (15). The price: a word is said
of 87 % of all these real fits with up to 60 rows, of 61 % with 80 and 100, and of 22 % with 150."""
FEWEST_ROWS, FEWEST_WITH_RARE_CLASSES, FEWEST_OF_A_CLASS = 25, 150, 5
"""Of 712 drawn designs with 12 to 40 rows 18 lost more than 0.1 nats without a word; the two
differences name twelve of them, and these numbers most of the others; of 776 with 150 and 200 rows
none did."""
NATS_OF_A_CURVE = 10.0
"""What the parameters of a curve may have added to the log-likelihood of all labels, by far."""
MOST_ROWS = 1000
"""With more rows none of 256 designs lost as much, and leave-one-out probabilities take time."""


def warn_if_too_few(model: Any, training: Training, distinct: int) -> None:
    """Say so where labels leave open whether fitted probabilities do harm.

    Parameters
    ----------
    model : AngularBase
        Fitted.
    training : Training
    distinct : int
        Rows, copies of one row counted once.
    """
    elsewhere = training.is_far or training.on_device
    if elsewhere or len(training.codes) > MOST_ROWS or model.angle_.is_fallback:
        return
    labels, rarest = labels_of(training)
    n = min(labels, distinct)
    many = training.n_classes > 2 and n < FEWEST_WITH_RARE_CLASSES
    if n < FEWEST_ROWS or (many and rarest < FEWEST_OF_A_CLASS):
        unit = " independent labels by its groups" if training.groups is not None else ""
        unit = " labels of rows that are no copies" if distinct < labels else unit
        warn(
            "Too few labels to tell what probabilities are worth: y has "
            f"{round(n)}{unit}, {rarest} of them of its rarest class, and leave-one-out figures of "
            "so few are mostly chance.",
            AngleWarning,
        )
        return
    if _is_beyond_doubt(model, training, n):
        return
    p, own = (
        np.maximum(each, PROBABILITY_FLOOR) for each in (model.loo_proba_, model.plain_loo_proba_)
    )
    if p.shape != (len(training.codes), training.n_classes):
        return  # of some rows alone
    told = bool(getattr(getattr(model, "calibration_", None), "doubt", ""))
    message = _beside_shares(p, training, n, told) or _beside_plain(p, own, training, n)
    if message:
        warn(message, AngleWarning)


def _beside_shares(p: Floats, training: Training, n: float, told: bool) -> str:
    """What is to be said of the loss beside that of the shares of the classes, if anything."""
    shares = shares_without(training)
    gain, error = difference(shares, p, training, n)
    weights = training.weights / training.weights.sum()
    cost = float(weights @ np.sum(shares * np.log(shares / p), axis=1))
    if gain < -ERRORS_OF_GAIN * error and cost > COST:
        return (
            "Probabilities are worse than the shares of the classes: the leave-one-out log-loss is "
            f"{-gain:.2g} ± {error:.2g} above that of the shares. Check a link, an angle or groups "
            "that were given; without these a stronger penalty or fewer columns may help."
        )
    if gain < ERRORS_OF_GAIN * error and cost > COST and not told:
        side = "below" if gain > 0.0 else "above"
        return (
            "Too few labels to tell a signal from chance: the leave-one-out log-loss is "
            f"{abs(gain):.2g} ± {error:.2g} {side} that of the shares of the classes, and without "
            f"a signal it would be {cost:.2g} above. More labels, or fewer columns, would tell."
        )
    return ""


def _beside_plain(p: Floats, own: Floats, training: Training, n: float) -> str:
    """What is to be said of the loss beside that of the model's own probabilities, if anything."""
    loss, error = difference(p, own, training, n)
    if loss + ERRORS_OF_LOSS * error <= HARM:
        return ""
    side = "above" if loss > 0.0 else "below"
    return (
        "Too few labels to tell whether calibration helps: the leave-one-out log-loss is "
        f"{abs(loss):.2g} ± {error:.2g} {side} that of the model's own probabilities "
        "(plain_loo_proba_). More labels, or fewer columns, would tell."
    )


def _is_beyond_doubt(model: Any, training: Training, n: float) -> bool:
    """Whether both differences are clear at twice the errors, of the curve of `link_` and `angle_`.

    Its own three parameters are no more than 3/(2n) nats of the loss, and leave-one-out
    probabilities take ten times as long.
    """
    if training.n_classes > 2 or training.groups is not None:
        return False
    left = getattr(model, "_left_out", None)
    posterior = getattr(left, "posterior", None)  # of one curve of an unknown link
    if left is None or posterior is None:
        return False
    link, c = model.link_, model.angle_.cosine
    scores = left.curve.scale.standardize(left.scores)
    centers = link.scale * c * scores + link.offset
    rising = posterior.family.jet(centers, link.scale * noise_share(c))[0]
    pairs = (np.column_stack([1.0 - rising, rising]), left.plain())
    p, own = (np.maximum(each, PROBABILITY_FLOOR) for each in pairs)
    slack = NATS_OF_A_CURVE / n
    gain, error = difference(shares_without(training), p, training, n)
    loss, error_of_loss = difference(p, own, training, n)
    clear = gain - slack > 2.0 * ERRORS_OF_GAIN * error
    return clear and loss + slack + 2.0 * ERRORS_OF_LOSS * error_of_loss < HARM


def shares_without(training: Training) -> Floats:
    """(n, K) shares of the classes among the other rows or groups, one of each class added."""
    codes, weights = training.codes.astype(np.intp), usual_weights(training.weights)
    groups = training.groups_of(training.X)
    return prevalence(codes, weights, training.n_classes, groups).left_out


def labels_of(training: Training) -> tuple[float, int]:
    """(labels, those of the rarest class): of groups what their labels are worth, and groups."""
    codes, groups = training.codes.astype(np.intp), training.groups_of(training.X)
    if groups is None:
        return float(len(codes)), int(np.bincount(codes).min())
    own = np.eye(training.n_classes)[codes]
    effect = prevalence_effect(own, training.weights, groups)
    return len(codes) / effect, int(np.sum(groups.sums(own) > 0, axis=0).min())


def difference(first: Floats, second: Floats, training: Training, n: float) -> tuple[float, float]:
    """(mean, standard error) of what n labels lose more under some probabilities than others.

    The error is the largest of three: that of the spread of the losses, and what it would be if
    either probabilities were right. Luck makes losses small, and with them their spread. Of few
    rows it is larger by 5/n.
    """
    rows, codes = np.arange(len(training.codes)), training.codes.astype(np.intp)
    ratios = np.log(second) - np.log(first)
    groups = training.groups_of(training.X)
    numbers = None if groups is None else groups.codes
    mean, error = mean_and_error(ratios[rows, codes], training.weights, numbers)
    share = training.weights / training.weights.sum()
    for p in (first, second):
        expected = np.sum(p * ratios, axis=1, keepdims=True)
        variance = float(share**2 @ np.sum(p * (ratios - expected) ** 2, axis=1))
        error = max(error, float(np.sqrt(variance * len(rows) / n)))
    return mean, (1.0 + ROWS_OF_AN_ERROR / n) * error
