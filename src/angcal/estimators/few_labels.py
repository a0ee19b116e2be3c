r"""Whether labels are too few to tell what probabilities are worth.

Two differences of leave-one-out log-losses decide, each with its standard error over the rows:

- to the shares of the classes. Where the gain is below three errors chance may explain it: three,
  as the penalty was chosen by such losses. It matters where following chance costs much,
  Σ_k q_k log(q_k/p_k) > 0.08 nats with q the shares and p the probabilities. Three errors below
  zero the labels do tell: probabilities are worse than the shares;
- to the model's own probabilities. Where the difference may be above 0.1 nats, at two errors.

Of fewer than 20 rows neither tells anything, nor of fewer than 150 in several classes of which one
has fewer than five.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from angcal._typing import Floats
from angcal.estimators.training import Training
from angcal.metrics.scores import PROBABILITY_FLOOR
from angcal.notices import AngleWarning, warn

HARM, COST = 0.1, 0.08
"""Nats that may not be lost without a word; and the cost of following chance that speaks for such a
loss, as on pure noise costs of 0.09 became losses of 0.1."""
ERRORS_OF_GAIN, ERRORS_OF_LOSS = 3.0, 2.0
"""Of 549 drawn designs with 50 to 100 rows three lost more than 0.1 nats without a word, and these
numbers name all three; 6 % more of the designs are spoken of. With two errors of the gain they
named one."""
FEWEST_ROWS, FEWEST_WITH_RARE_CLASSES, FEWEST_OF_A_CLASS = 20, 150, 5
"""Of 712 drawn designs with 12 to 40 rows 18 lost more than 0.1 nats without a word; the two
differences name twelve of them, and these numbers most of the others; of 776 with 150 and 200 rows
none did."""
MOST_ROWS = 1000
"""With more rows none of 256 designs lost as much, and leave-one-out probabilities take time."""


def warn_if_too_few(model: Any, training: Training) -> None:
    """Say so where labels leave open whether fitted probabilities do harm.

    Parameters
    ----------
    model : AngularBase
        Fitted.
    training : Training
    """
    elsewhere = training.is_far or training.on_device
    if elsewhere or len(training.codes) > MOST_ROWS or model.angle_.is_fallback:
        return
    n, rarest = len(training.codes), int(np.bincount(training.codes.astype(np.intp)).min())
    many = training.n_classes > 2 and n < FEWEST_WITH_RARE_CLASSES
    if n < FEWEST_ROWS or (many and rarest < FEWEST_OF_A_CLASS):
        warn(
            f"Too few labels to tell what probabilities are worth: y has {n}, {rarest} of them "
            "of its rarest class, and leave-one-out figures of so few are mostly chance.",
            AngleWarning,
        )
        return
    p, own = (
        np.maximum(each, PROBABILITY_FLOOR) for each in (model.loo_proba_, model.plain_loo_proba_)
    )
    if p.shape != (len(training.codes), training.n_classes):
        return  # of some rows alone
    shares = shares_without(training)
    gain, error = difference(shares, p, training)
    weights = training.weights / training.weights.sum()
    cost = float(weights @ np.sum(shares * np.log(shares / p), axis=1))
    told = getattr(getattr(model, "calibration_", None), "doubt", "")
    if gain < ERRORS_OF_GAIN * error and cost > COST and not told:
        if gain < -ERRORS_OF_GAIN * error:
            message = (
                "Probabilities are worse than the shares of the classes: their leave-one-out "
                f"log-loss is {_in_words(gain, error)} that of the shares. Strengthen the penalty, "
                "or leave out columns."
            )
        else:
            message = (
                "Too few labels to tell a signal from chance: the leave-one-out log-loss is "
                f"{_in_words(gain, error)} that of the shares of the classes, and without a signal "
                f"it would be {cost:.2g} above. More labels, or fewer columns, would tell."
            )
        warn(message, AngleWarning)
        return
    loss, error = difference(p, own, training)
    if loss + ERRORS_OF_LOSS * error > HARM:
        warn(
            "Too few labels to tell whether calibration helps: the leave-one-out log-loss is "
            f"{_in_words(-loss, error)} that of the model's own probabilities "
            "(plain_loo_proba_). More labels, or fewer columns, would tell.",
            AngleWarning,
        )


def _in_words(gain: float, error: float) -> str:
    """A gain in words."""
    return f"{abs(gain):.2g} ± {error:.2g} {'below' if gain > 0.0 else 'above'}"


def shares_without(training: Training) -> Floats:
    """(n, K) shares of the classes among the other rows, one row of each class added."""
    codes = training.codes.astype(np.intp)
    counts = np.bincount(codes, training.weights, minlength=training.n_classes) + 1.0
    rest = np.tile(counts, (len(codes), 1))
    rest[np.arange(len(codes)), codes] -= training.weights
    return rest / rest.sum(axis=1, keepdims=True)


def difference(first: Floats, second: Floats, training: Training) -> tuple[float, float]:
    """(mean, standard error) of what the labels lose more under some probabilities than others."""
    rows, codes = np.arange(len(training.codes)), training.codes.astype(np.intp)
    gaps = np.log(second[rows, codes]) - np.log(first[rows, codes])
    share = training.weights / training.weights.sum()
    mean = float(share @ gaps)
    deviations = share * (gaps - mean)
    groups = training.groups_of(training.X)
    sums = deviations if groups is None else groups.sums(deviations)
    return mean, float(np.sqrt(np.sum(sums**2)))
