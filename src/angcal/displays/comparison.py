"""Several methods side by side: log-loss and ECE as dots with standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.displays.canvas import STYLES, panels
from angcal.metrics import as_labels, as_probabilities, as_weights, expected_calibration_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROBABILITY_FLOOR = 1e-12


def row_losses(labels: Floats, y_prob: Floats) -> Floats:
    """−[y log p + (1−y) log(1−p)] of every row, p kept 1e-12 away from 0 and 1."""
    p = np.clip(y_prob, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
    return -np.log(np.where(labels == 1.0, p, 1.0 - p))


def mean_and_error(values: Floats, weights: Floats) -> tuple[float, float]:
    """Σ ω_i v_i/W and √(Σ ω_i²(v_i − mean)²)/W: a weighted mean and its standard error."""
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.sum((weights * (values - mean)) ** 2)) / weights.sum())


def ece_and_error(
    pairs: Sequence[tuple[Floats, Floats]],
    weights: Floats,
    *,
    n_bins: int = 15,
    n_draws: int = 100,
    random_state: Any = 0,
) -> tuple[float, float]:
    """Mean ECE of (labels, probabilities) pairs over the same rows, and its bootstrap error.

    Rows are drawn anew, all pairs together, so that pairs of one row count as one.
    """

    def mean_ece(case_weights: Floats) -> float:
        errors = [
            expected_calibration_error(labels, p, n_bins=n_bins, sample_weight=case_weights)
            for labels, p in pairs
        ]
        return float(np.mean(errors))

    rng, n = np.random.default_rng(random_state), len(weights)
    draws = []
    for _ in range(n_draws):
        drawn = weights * np.bincount(rng.integers(0, n, n), minlength=n)
        if drawn.any():
            draws.append(mean_ece(drawn))
    return mean_ece(weights), float(np.std(draws, ddof=1)) if len(draws) > 1 else 0.0


@dataclass
class ComparisonDisplay:
    """Mean ± one standard error of several metrics for several methods, lower is better.

    Parameters
    ----------
    names : sequence of str
        Methods, drawn from top to bottom.
    values, errors : mapping from str to array
        Metric to one number per method.

    Attributes
    ----------
    axes_, figure_
        One axes per metric.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = ComparisonDisplay.from_predictions(
    ...     [0, 1, 1, 0], {"a": [0.2, 0.7, 0.6, 0.4], "b": [0.5] * 4}, ax=Figure().subplots()
    ... )
    >>> display.values["log-loss"].round(2)
    array([0.4 , 0.69])
    """

    names: Sequence[str]
    values: Mapping[str, Floats]
    errors: Mapping[str, Floats]
    axes_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_probs: Mapping[str, ArrayLike],
        *,
        n_bins: int = 15,
        sample_weight: ArrayLike | None = None,
        n_draws: int = 100,
        random_state: Any = 0,
        ax: Axes | Iterable[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw log-loss and ECE of several predictions of the same labels.

        Parameters
        ----------
        y_true
            Labels 0/1.
        y_probs
            Name of each method to its predicted P(y = 1).
        n_bins, sample_weight
            As in `expected_calibration_error`.
        n_draws, random_state
            Bootstrap draws for the standard error of the ECE. That of the log-loss comes from the
            rows' own losses.
        ax
            One axes, which is divided; one axes per metric; or None for a new figure.
        **plot_options
            Passed to `plot`.
        """
        if not y_probs:
            raise ValueError("y_probs is empty; pass at least one method's probabilities.")
        labels = as_labels(y_true, "y_true")
        weights = as_weights(sample_weight, labels.size)
        losses, eces = [], []
        for name, y_prob in y_probs.items():
            p = as_probabilities(y_prob, f"y_probs[{name!r}]")
            if p.size != labels.size:
                raise ValueError(
                    f"y_probs[{name!r}] has {p.size} entries but y_true has {labels.size}; pass "
                    "one per row."
                )
            losses.append(mean_and_error(row_losses(labels, p), weights))
            eces.append(
                ece_and_error(
                    [(labels, p)],
                    weights,
                    n_bins=n_bins,
                    n_draws=n_draws,
                    random_state=random_state,
                )
            )
        (loss, loss_error), (ece, ece_error) = np.array(losses).T, np.array(eces).T
        values = {"log-loss": loss, "ECE": ece}
        display = cls(list(y_probs), values, {"log-loss": loss_error, "ECE": ece_error})
        return display.plot(ax, **plot_options)

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, Any], X: Any, y: ArrayLike, **options: Any
    ) -> Self:
        """Draw fitted binary classifiers by their ``predict_proba`` on (X, y)."""
        y_probs, positive = {}, None
        for name, estimator in estimators.items():
            classes = np.asarray(estimator.classes_)
            if classes.size != 2:
                raise ValueError(f"{name} has {classes.size} classes; this comparison needs 2.")
            if positive is not None and classes[1] != positive:
                raise ValueError(
                    f"{name} has the positive class {classes[1]!r} and others have {positive!r}; "
                    "fit all of them on the same labels."
                )
            positive = classes[1]
            y_probs[name] = estimator.predict_proba(X)[:, 1]
        labels = np.asarray(y) == positive
        return cls.from_predictions(labels, y_probs, **options)

    def plot(self, ax: Axes | Iterable[Axes] | None = None) -> Self:
        """Draw one panel per metric, all with the same methods in the same rows.

        Parameters
        ----------
        ax
            One axes, which is divided; one axes per metric; or None for a new figure.
        """
        metrics, rows = list(self.values), np.arange(len(self.names))
        size = (2.2 + 2.4 * len(metrics), 1.3 + 0.34 * len(rows))
        self.axes_ = panels("ComparisonDisplay", ax, (1, len(metrics)), size)[: len(metrics)]
        self.figure_ = self.axes_[0].figure
        for index, (metric, panel) in enumerate(zip(metrics, self.axes_, strict=True)):
            for row in rows:
                color, marker, _ = STYLES[row % len(STYLES)]
                panel.errorbar(
                    self.values[metric][row],
                    row,
                    xerr=self.errors[metric][row],
                    color=color,
                    marker=marker,
                    ms=6,
                    capsize=3,
                )
            panel.set_yticks(rows, self.names if index == 0 else [""] * len(rows))
            panel.set(ylim=(len(rows) - 0.5, -0.5), xlabel=metric)
            panel.xaxis.set_major_locator(_few_ticks())
            panel.grid(axis="y", color="0.5", alpha=0.25, lw=0.8)
            panel.set_axisbelow(True)
        return self


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=3)
