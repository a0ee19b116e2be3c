"""Methods side by side: log-loss and ECE as dots with standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.displays.style import STYLES, PanelDisplay
from angcal.metrics import (
    as_class_codes,
    as_labels,
    as_probabilities,
    as_probability_matrix,
    as_weights,
)
from angcal.metrics.calibration import ece_and_error
from angcal.metrics.scores import both_classes, judged, mean_and_error, row_losses
from angcal.metrics.validation import Classes, Codes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class ComparisonDisplay(PanelDisplay):
    """Mean ± one standard error of each metric for each method; lower is better.

    Parameters
    ----------
    names : sequence of str
        Methods, drawn from top to bottom.
    values, errors : mapping from str to ndarray
        Metric to one number per method.

    Attributes
    ----------
    axes_, figure_
        One axes per metric.

    See Also
    --------
    ReliabilityDisplay : One method in detail.

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

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_probs: Mapping[str, ArrayLike],
        *,
        n_bins: int = 15,
        sample_weight: ArrayLike | None = None,
        classes: Classes = None,
        n_draws: int = 100,
        random_state: Any = 0,
        ax: Axes | Iterable[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw log-loss and ECE of more than one prediction of the same labels.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels 0/1, or of any classes.
        y_probs : mapping from str to array-like
            Name of each method to its predicted P(y = 1), of shape (n,), or to the probabilities
            of all classes, (n, K). The ECE of three and more is that of the likeliest class.
        n_bins, sample_weight : optional
            As in `expected_calibration_error`.
        classes : sequence, optional
            The label of each of K columns; 0, …, K − 1 if None.
        n_draws, random_state : int
            Bootstrap draws for the standard error of the ECE. That of the log-loss comes from the
            rows' own losses.
        ax : Axes or iterable of Axes, optional
            One axes, which is divided; one axes per metric; or None for a new figure.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        ComparisonDisplay
            The display, drawn.
        """
        if not y_probs:
            raise ValueError("y_probs is empty; pass at least one method's probabilities.")
        n = np.shape(y_true)[0]
        weights = as_weights(sample_weight, n)
        draws: dict[str, Any] = {"n_bins": n_bins, "n_draws": n_draws, "random_state": random_state}
        losses, eces = [], []
        for name, y_prob in y_probs.items():
            if len(np.asarray(y_prob)) != n:
                raise ValueError(
                    f"y_probs[{name!r}] has {len(np.asarray(y_prob))} entries but y_true has {n}; "
                    "pass one per row."
                )
            P, codes = _by_class(y_true, y_prob, classes, f"y_probs[{name!r}]")
            losses.append(mean_and_error(row_losses(P, codes), weights))
            eces.append(ece_and_error([judged(P, codes)], weights, **draws))
        (loss, loss_error), (ece, ece_error) = np.array(losses).T, np.array(eces).T
        values = {"log-loss": loss, "ECE": ece}
        display = cls(list(y_probs), values, {"log-loss": loss_error, "ECE": ece_error})
        return display.plot(ax, **plot_options)

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, Any], X: Any, y: ArrayLike, **options: Any
    ) -> Self:
        """Draw fitted classifiers by their ``predict_proba`` on (X, y).

        Parameters
        ----------
        estimators : mapping from str to object
            Name of each method to its fitted classifier; all of the same classes.
        X, y : array-like
            Rows and labels.
        **options : dict
            Passed to `from_predictions`.

        Returns
        -------
        ComparisonDisplay
            The display, drawn.
        """
        y_probs, shared = {}, None
        for name, estimator in estimators.items():
            classes = np.asarray(estimator.classes_)
            if shared is not None and not np.array_equal(classes, shared):
                raise ValueError(
                    f"{name} has other classes than the methods before it; fit all of them on the "
                    "same labels."
                )
            shared = classes
            y_probs[name] = estimator.predict_proba(X)
        return cls.from_predictions(y, y_probs, classes=shared, **options)

    def plot(self, ax: Axes | Iterable[Axes] | None = None) -> Self:
        """Draw one panel per metric, all with the same methods in the same rows.

        Parameters
        ----------
        ax : Axes or iterable of Axes, optional
            One axes, which is divided; one axes per metric; or None for a new figure.

        Returns
        -------
        ComparisonDisplay
            The display itself.
        """
        from matplotlib.ticker import MaxNLocator

        count, rows = len(self.values), np.arange(len(self.names))
        size = (2.2 + 2.4 * count, 1.3 + 0.34 * len(rows))
        axes = self._start(ax, count, (1, count), size)
        for index, (metric, panel) in enumerate(zip(self.values, axes, strict=True)):
            for row in rows:
                color, marker, _ = STYLES[row % len(STYLES)]
                value, error = self.values[metric][row], self.errors[metric][row]
                look: dict[str, Any] = {"color": color, "marker": marker, "ms": 6, "capsize": 3}
                panel.errorbar(value, row, xerr=error, **look)
            panel.set_yticks(rows, self.names if index == 0 else [""] * len(rows))
            panel.set(ylim=(len(rows) - 0.5, -0.5), xlabel=metric)
            panel.xaxis.set_major_locator(MaxNLocator(nbins=3))
            panel.grid(axis="y", color="0.5", alpha=0.25, lw=0.8)
            panel.set_axisbelow(True)
        return self


def _by_class(
    y_true: ArrayLike, y_prob: ArrayLike, classes: Classes, name: str
) -> tuple[Floats, Codes]:
    """(n, K) probabilities, and the column of each label."""
    if np.ndim(y_prob) != 2:
        codes = as_labels(y_true, "y_true").astype(np.intp)
        return both_classes(as_probabilities(y_prob, name)), codes
    P = as_probability_matrix(y_prob, name)
    return P, as_class_codes(y_true, P.shape[1], classes)
