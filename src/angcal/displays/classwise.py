"""Reliability of several classes: one small diagram for each class against the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.displays.canvas import panels
from angcal.displays.reliability import ReliabilityDisplay
from angcal.metrics import Strategy, as_vector, reliability_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_COLUMNS = 4
PANEL_SIDE = 2.6  # inches


@dataclass
class ClasswiseReliabilityDisplay:
    """For every class k: the frequency of y = k against the mean predicted P(y = k).

    Parameters
    ----------
    displays : sequence of ReliabilityDisplay
        One per class.
    classes : sequence
        What the classes are called.

    Attributes
    ----------
    axes_, figure_
        One axes per class.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> P = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])
    >>> display = ClasswiseReliabilityDisplay.from_predictions(
    ...     ["a", "b", "c"], P, classes=["a", "b", "c"], n_bins=3, ax=Figure().subplots()
    ... )
    >>> [ax.get_title() for ax in display.axes_]
    ['a', 'b', 'c']
    """

    displays: Sequence[ReliabilityDisplay]
    classes: Sequence[Any]
    axes_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        classes: Sequence[Any] | None = None,
        n_bins: int = 10,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        confidence: float = 0.95,
        ax: Axes | Iterable[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw labels against an (n, K) matrix of probabilities.

        Parameters
        ----------
        y_true
            (n,) labels.
        y_prob
            (n, K) predicted probabilities.
        classes
            The label of each column; the sorted labels of `y_true` if None.
        n_bins, strategy, sample_weight, confidence
            As in `reliability_curve`, for each class by itself.
        ax
            One axes, which is divided; one axes per class; or None for a new figure.
        **plot_options
            Passed to `plot`.
        """
        labels, probabilities = np.asarray(y_true), _matrix(y_prob, len(np.asarray(y_true)))
        names = np.unique(labels) if classes is None else np.asarray(classes)
        if len(names) != probabilities.shape[1]:
            raise ValueError(
                f"y_prob has {probabilities.shape[1]} columns for {len(names)} classes; pass "
                "classes with one label for each column."
            )
        unknown = labels[~np.isin(labels, names)]
        if unknown.size:
            raise ValueError(
                f"y_true holds {unknown[0]!r}, which is none of classes={names.tolist()}."
            )
        weight = None if sample_weight is None else as_vector(sample_weight, "sample_weight")
        displays = []
        for name, column in zip(names, probabilities.T, strict=True):
            curve = reliability_curve(
                labels == name,
                column,
                n_bins=n_bins,
                strategy=strategy,
                sample_weight=weight,
                confidence=confidence,
            )
            displays.append(ReliabilityDisplay(curve, None, column, weight))
        return cls(displays, names.tolist()).plot(ax, **plot_options)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> Self:
        """Draw a fitted classifier's ``predict_proba`` on (X, y), by its ``classes_``."""
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(f"{type(estimator).__name__} has no predict_proba; calibrate it first.")
        return cls.from_predictions(
            y, estimator.predict_proba(X), classes=estimator.classes_, **options
        )

    def plot(
        self,
        ax: Axes | Iterable[Axes] | None = None,
        *,
        columns: int | None = None,
        band: bool = True,
        histogram: bool = False,
        **line_options: Any,
    ) -> Self:
        """Draw one square for each class.

        Parameters
        ----------
        ax
            One axes, which is divided; one axes per class; or None for a new figure.
        columns
            Squares in a row; at most four by default.
        band, histogram, **line_options
            As in `ReliabilityDisplay.plot`.
        """
        count = len(self.displays)
        columns = min(count, MOST_COLUMNS) if columns is None else min(columns, count)
        rows = -(-count // columns)
        size = (PANEL_SIDE * columns, (PANEL_SIDE + 0.8 * histogram) * rows)
        made = panels("ClasswiseReliabilityDisplay", ax, (rows, columns), size)
        for empty in made[count:]:
            empty.set_axis_off()
        self.axes_, self.figure_ = made[:count], made[0].figure
        for index, (display, name) in enumerate(zip(self.displays, self.classes, strict=True)):
            panel = self.axes_[index]
            display.plot(panel, band=band, histogram=histogram, **line_options)
            panel.get_legend().remove()
            # A label is data: its dollar signs are no mathematics.
            panel.set_title(str(name), fontsize="medium", parse_math=False)
            if index % columns:
                panel.set_ylabel("")
            if index + columns < count:
                (display.histogram_ax_ or panel).set_xlabel("")
            panel.set(xticks=(0.0, 0.5, 1.0), yticks=(0.0, 0.5, 1.0))
        return self


def _matrix(y_prob: ArrayLike, n_rows: int) -> Floats:
    """(n, K) probabilities, or what is wrong with them."""
    matrix = np.asarray(y_prob, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) != n_rows:
        raise ValueError(
            f"y_prob has shape {matrix.shape} but must be ({n_rows}, K): one row per label and one "
            "column per class, as predict_proba returns it."
        )
    return matrix
