"""Reliability diagrams: one curve for two classes; for more, the likeliest class and each class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.displays.style import (
    FAINT,
    STYLES,
    Display,
    PanelDisplay,
    add_curve,
    curves_on,
    histogram_below,
    probabilities_of,
    shade,
)
from angcal.metrics import (
    ReliabilityCurve,
    Strategy,
    as_class_codes,
    as_vector,
    classwise_reliability,
    reliability_curve,
)
from angcal.metrics.scores import judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class ReliabilityDisplay(Display):
    """Observed frequency ȳ_b against mean prediction p̄_b, on the square [0, 1]².

    A calibrated predictor follows the diagonal, and stays inside the shaded consistency band of
    each bin with the curve's confidence. Three and more classes have one such curve as well: how
    often the likeliest class is right, against the probability that it was given. Build one with
    `from_predictions` or `from_estimator`.

    Parameters
    ----------
    curve : ReliabilityCurve
        What to draw.
    name : str, optional
        Legend entry.
    y_prob, sample_weight : ndarray of shape (n,), optional
        Predictions and weights for the histogram.
    of_likeliest : bool, default=False
        Whether predictions are those of each row's likeliest class, which the axes then say.

    Attributes
    ----------
    ax_, figure_, line_, band_, histogram_ax_
        The artists of the last `plot`; `band_` and `histogram_ax_` are None where not drawn.

    See Also
    --------
    ClasswiseReliabilityDisplay : Each class of more than two by itself.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = ReliabilityDisplay.from_predictions(
    ...     [0, 0, 1, 1], [0.1, 0.4, 0.6, 0.9], n_bins=2, ax=Figure().subplots()
    ... )
    >>> display.line_.get_xdata()
    array([0.25, 0.75])
    """

    curve: ReliabilityCurve
    name: str | None = None
    y_prob: Floats | None = None
    sample_weight: Floats | None = None
    of_likeliest: bool = False
    line_: Any = field(default=None, init=False, repr=False)
    band_: Any = field(default=None, init=False, repr=False)
    histogram_ax_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        classes: Sequence[Any] | None = None,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        confidence: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the `reliability_curve` of labels and their predicted probabilities.

        Parameters
        ----------
        y_true, y_prob : array-like
            Labels 0/1 and predicted P(y = 1), of shape (n,); or any labels and (n, K)
            probabilities of the classes. Of two columns the second is drawn, of more the
            largest in each row.
        classes : sequence, optional
            The label of each column; the sorted labels of `y_true` if None.
        n_bins, strategy, sample_weight, confidence : optional
            As in `reliability_curve`.
        name : str, optional
            Legend entry.
        ax : Axes, optional
            Axes to draw on, possibly with other curves; a new figure if None.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.
        """
        weight = None if sample_weight is None else as_vector(sample_weight, "sample_weight")
        labels, p, of_likeliest = y_true, y_prob, False
        if np.ndim(y_prob) == 2:
            codes, P, names = _by_class(y_true, y_prob, classes)
            labels, p, of_likeliest = *judged(P, codes), len(names) > 2
        curve = reliability_curve(
            labels,
            p,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=weight,
            confidence=confidence,
        )
        display = cls(curve, name, as_vector(p, "y_prob"), weight, of_likeliest)
        return display.plot(ax, **plot_options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any
    ) -> Self:
        """Draw the curve of a fitted classifier's ``predict_proba`` on (X, y).

        Parameters
        ----------
        estimator : object
            A fitted classifier of any number of classes.
        X, y : array-like
            Rows and labels.
        name : str, optional
            Legend entry; the estimator's class by default.
        **options : dict
            Passed to `from_predictions`.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.
        """
        P = probabilities_of(estimator, X)
        label = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, P, classes=estimator.classes_, name=label, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        band: bool = True,
        histogram: bool = False,
        **line_options: Any,
    ) -> Self:
        """Draw the curve, and the diagonal unless an earlier curve drew it.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; a new figure if None.
        name : str, optional
            Legend entry, if other than the display's own.
        band : bool, default=True
            Shade the consistency band.
        histogram : bool, default=False
            Show the distribution of predictions below the axes.
        **line_options : dict
            Passed to ``ax.plot``, over the color, marker and dash that successive curves take.

        Returns
        -------
        ReliabilityDisplay
            The display itself.
        """
        ax = self._start(ax, (5.0, 6.3 if histogram else 5.0))
        _draw_frame(ax, self.of_likeliest)
        gid, curve = "angcal-reliability-curve", self.curve
        _, marker, dash = STYLES[curves_on(ax, gid) % len(STYLES)]
        # Bins at 0 and 1 keep whole markers.
        look = {"marker": marker, "markersize": 5.5, "clip_on": False} | line_options
        label = self.name if name is None else name
        self.line_ = add_curve(ax, gid, curve.mean_predicted, curve.observed, label, look)
        self.band_ = self.histogram_ax_ = None
        if band:
            ends = curve.lower, curve.upper
            self.band_ = shade(ax, curve.mean_predicted, *ends, self.line_)
        if histogram:
            self.histogram_ax_ = self._draw_histogram(ax, self.line_.get_color(), dash)
        ax.legend(loc="best", frameon=False)
        return self

    def _draw_histogram(self, ax: Axes, color: Any, dash: Any) -> Any:
        if self.y_prob is None:
            raise ValueError(
                "histogram=True needs y_prob; build the display with from_predictions."
            )
        weight = np.ones_like(self.y_prob) if self.sample_weight is None else self.sample_weight
        look: dict[str, Any] = {"color": color, "linestyle": dash}
        return histogram_below(ax, self.y_prob, weight / weight.sum(), 25, (0.0, 1.0), **look)


def _draw_frame(ax: Axes, of_likeliest: bool) -> None:
    """The diagonal of a calibrated predictor, unless an earlier curve drew it."""
    gid = "angcal-reliability-diagonal"
    if curves_on(ax, gid):
        return
    ax.plot([0, 1], [0, 1], color=FAINT, lw=1, gid=gid, label="perfect", zorder=1)
    across, up = "Mean predicted probability", "Observed frequency"
    if of_likeliest:
        across, up = "Mean probability of the likeliest class", "Share of rows where it is right"
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=across, ylabel=up)
    ax.set_aspect("equal", adjustable="box")


def _by_class(
    y_true: ArrayLike, y_prob: ArrayLike, classes: Sequence[Any] | None
) -> tuple[Any, Floats, Any]:
    """The column of each label, (n, K) probabilities and names of the columns; or what is wrong."""
    labels, P = np.asarray(y_true), np.asarray(y_prob, dtype=np.float64)
    if P.ndim != 2 or len(P) != len(labels):
        raise ValueError(
            f"y_prob has shape {P.shape} but must be ({len(labels)}, K): one row per label "
            "and one column per class, as predict_proba returns it."
        )
    names = np.unique(labels) if classes is None else np.asarray(classes)
    if len(names) != P.shape[1]:
        raise ValueError(
            f"y_prob has {P.shape[1]} columns for {len(names)} classes; pass "
            "classes with one label for each column."
        )
    unknown = labels[~np.isin(labels, names)]
    if unknown.size:
        known = f"classes={names.tolist()}" if len(names) <= 10 else f"the {len(names)} classes"
        raise ValueError(f"y_true holds {unknown[0]!r}, which is none of {known}.")
    return as_class_codes(labels, len(names), names), P, names


def outside_band(curve: ReliabilityCurve) -> float:
    """Σ_b (W_b/W)·(distance of ȳ_b from its band): how far off beyond chance.

    Examples
    --------
    >>> outside_band(reliability_curve([0] * 50, [0.5] * 50, n_bins=1)).__round__(2)
    0.36
    """
    away = np.maximum(curve.lower - curve.observed, curve.observed - curve.upper)
    return float(curve.weight / curve.weight.sum() @ np.maximum(away, 0.0))


def worst_first(curves: Sequence[ReliabilityCurve]) -> list[int]:
    """Places of the curves, those first that lie farthest outside their bands.

    Of those that stay inside, the ones first that are farthest from the diagonal.
    """
    gaps = [
        float(curve.weight / curve.weight.sum() @ np.abs(curve.observed - curve.mean_predicted))
        for curve in curves
    ]
    keys = [(-outside_band(curve), -gap) for curve, gap in zip(curves, gaps, strict=True)]
    return sorted(range(len(curves)), key=lambda k: keys[k])


@dataclass
class ClasswiseReliabilityDisplay(PanelDisplay):
    """For every class k: the frequency of y = k against the mean predicted P(y = k).

    Of more than twelve classes only those are drawn that lie farthest outside their bands.

    Parameters
    ----------
    displays : sequence of ReliabilityDisplay
        One per class.
    classes : sequence
        What the classes are called.
    n_classes : int, optional
        How many classes there are, if more than are drawn.

    Attributes
    ----------
    axes_, figure_
        One axes per class.

    See Also
    --------
    ReliabilityDisplay : One curve for any number of classes.

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
    n_classes: int | None = None

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
        most: int = 12,
        ax: Axes | Iterable[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw labels against an (n, K) matrix of probabilities.

        Parameters
        ----------
        y_true, y_prob : array-like
            Labels of shape (n,), and their predicted probabilities of shape (n, K).
        classes : sequence, optional
            The label of each column; the sorted labels of `y_true` if None.
        n_bins, strategy, sample_weight, confidence : optional
            As in `reliability_curve`, for each class by itself.
        most : int, default=12
            Classes that are drawn. Of more, those that lie farthest outside their bands, the worst
            first.
        ax : Axes or iterable of Axes, optional
            One axes, which is divided; one axes per class; or None for a new figure.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        ClasswiseReliabilityDisplay
            The display, drawn.
        """
        if most < 1:
            raise ValueError(f"most={most!r} must be at least 1: it counts the classes drawn.")
        codes, P, names = _by_class(y_true, y_prob, classes)
        weight = None if sample_weight is None else as_vector(sample_weight, "sample_weight")
        curves = classwise_reliability(
            codes,
            P,
            n_bins=n_bins,
            strategy=strategy,
            confidence=confidence,
            sample_weight=weight,
        )
        shown = worst_first(curves)[:most] if len(names) > most else range(len(names))
        displays = [
            ReliabilityDisplay(curves[k], y_prob=P[:, k], sample_weight=weight) for k in shown
        ]
        display = cls(displays, names[list(shown)].tolist(), len(names))
        return display.plot(ax, **plot_options)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> Self:
        """Draw a fitted classifier's ``predict_proba`` on (X, y), by its ``classes_``.

        Parameters
        ----------
        estimator : object
            A fitted classifier.
        X, y : array-like
            Rows and labels.
        **options : dict
            Passed to `from_predictions`.

        Returns
        -------
        ClasswiseReliabilityDisplay
            The display, drawn.
        """
        P = probabilities_of(estimator, X)
        return cls.from_predictions(y, P, classes=estimator.classes_, **options)

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
        ax : Axes or iterable of Axes, optional
            One axes, which is divided; one axes per class; or None for a new figure.
        columns : int, optional
            Squares in a row; at most four by default.
        band, histogram : bool
            As in `ReliabilityDisplay.plot`.
        **line_options : dict
            As in `ReliabilityDisplay.plot`.

        Returns
        -------
        ClasswiseReliabilityDisplay
            The display itself.
        """
        count = len(self.displays)
        columns = min(count, 4 if columns is None else columns)
        rows = -(-count // columns)
        size = (2.6 * columns, (2.6 + 0.8 * histogram) * rows)
        axes = self._start(ax, count, (rows, columns), size)
        for index, (display, name) in enumerate(zip(self.displays, self.classes, strict=True)):
            panel = axes[index]
            display.plot(panel, band=band, histogram=histogram, **line_options)
            panel.get_legend().remove()
            # A label is data: its dollar signs are no mathematics.
            panel.set_title(str(name), fontsize="medium", parse_math=False)
            if index % columns:
                panel.set_ylabel("")
            if index + columns < count:
                (display.histogram_ax_ or panel).set_xlabel("")
            panel.set(xticks=(0.0, 0.5, 1.0), yticks=(0.0, 0.5, 1.0))
        if ax is None and self.n_classes is not None and self.n_classes > count:
            self.figure_.suptitle(
                f"The {count} of {self.n_classes} classes that are farthest outside their bands",
                fontsize="medium",
            )
        return self
