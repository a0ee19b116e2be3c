"""Reliability diagrams: one curve for two classes, one small diagram for each class of more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.displays.style import FAINT, STYLES, Display, PanelDisplay, histogram_below
from angcal.metrics import ReliabilityCurve, Strategy, as_vector, reliability_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Artists carry these ids so that a second curve on the same axes finds what the first one drew.
CURVE_ID = "angcal-reliability-curve"
DIAGONAL_ID = "angcal-reliability-diagonal"


def _probabilities(estimator: Any, X: Any) -> Any:
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(f"{type(estimator).__name__} has no predict_proba; calibrate it first.")
    return estimator.predict_proba(X)


@dataclass
class ReliabilityDisplay(Display):
    """Observed frequency ȳ_b against mean prediction p̄_b, on the square [0, 1]².

    A calibrated predictor follows the diagonal, and stays inside the shaded consistency band of
    each bin with the curve's confidence. Build one with `from_predictions` or `from_estimator`.

    Parameters
    ----------
    curve : ReliabilityCurve
        What to draw.
    name : str, optional
        Legend entry.
    y_prob, sample_weight : ndarray of shape (n,), optional
        Predictions and weights for the histogram.

    Attributes
    ----------
    ax_, figure_, line_, band_, histogram_ax_
        The artists of the last `plot`; `band_` and `histogram_ax_` are None where not drawn.

    See Also
    --------
    ClasswiseReliabilityDisplay : For more than two classes.

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
    line_: Any = field(default=None, init=False, repr=False)
    band_: Any = field(default=None, init=False, repr=False)
    histogram_ax_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        confidence: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the `reliability_curve` of labels 0/1 and predicted P(y = 1).

        Parameters
        ----------
        y_true, y_prob : array-like of shape (n,)
            Labels 0/1 and predicted P(y = 1).
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
        curve = reliability_curve(
            y_true,
            y_prob,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=weight,
            confidence=confidence,
        )
        return cls(curve, name, as_vector(y_prob, "y_prob"), weight).plot(ax, **plot_options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any
    ) -> Self:
        """Draw the curve of a fitted binary classifier's ``predict_proba`` on (X, y).

        Parameters
        ----------
        estimator : object
            A fitted classifier of two classes.
        X, y : array-like
            Rows, and labels that are compared with ``estimator.classes_[1]``.
        name : str, optional
            Legend entry; the estimator's class by default.
        **options : dict
            Passed to `from_predictions`.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.
        """
        label = type(estimator).__name__
        y_prob = _probabilities(estimator, X)
        classes, labels = np.asarray(estimator.classes_), np.asarray(y)
        if classes.size != 2:
            raise ValueError(
                f"{label} has {classes.size} classes; a reliability diagram needs 2. "
                "Draw each class with ClasswiseReliabilityDisplay.from_estimator."
            )
        unknown = labels[~np.isin(labels, classes)]
        if unknown.size:
            raise ValueError(f"y holds {unknown[0]!r}, which is not in classes_={classes!r}.")
        return cls.from_predictions(
            labels == classes[1], y_prob[:, 1], name=label if name is None else name, **options
        )

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
        _draw_frame(ax)
        earlier = sum(line.get_gid() == CURVE_ID for line in ax.lines)
        color, marker, dash = STYLES[earlier % len(STYLES)]
        style = {"color": color, "marker": marker, "linestyle": dash, "markersize": 5.5}
        label = self.name if name is None else name
        curve = self.curve
        # Bins at 0 and 1 keep whole markers; "_" hides the unnamed curve from the legend.
        (self.line_,) = ax.plot(
            curve.mean_predicted,
            curve.observed,
            gid=CURVE_ID,
            label="_curve" if label is None else label,
            **({"clip_on": False, "zorder": 3} | style | line_options),
        )
        shade = self.line_.get_color()
        self.band_ = self.histogram_ax_ = None
        if band:
            look: dict[str, Any] = {"color": shade, "alpha": 0.15, "linewidth": 0, "zorder": 0}
            self.band_ = ax.fill_between(curve.mean_predicted, curve.lower, curve.upper, **look)
        if histogram:
            self.histogram_ax_ = self._draw_histogram(ax, shade, dash)
        ax.legend(loc="upper left", frameon=False)
        return self

    def _draw_histogram(self, ax: Axes, color: Any, dash: Any) -> Any:
        if self.y_prob is None:
            raise ValueError(
                "histogram=True needs y_prob; build the display with from_predictions."
            )
        weight = np.ones_like(self.y_prob) if self.sample_weight is None else self.sample_weight
        look: dict[str, Any] = {"color": color, "linestyle": dash}
        return histogram_below(ax, self.y_prob, weight / weight.sum(), 25, (0.0, 1.0), **look)


def _draw_frame(ax: Axes) -> None:
    """The diagonal of a calibrated predictor, unless an earlier curve drew it."""
    if any(line.get_gid() == DIAGONAL_ID for line in ax.lines):
        return
    ax.plot([0, 1], [0, 1], color=FAINT, lw=1, gid=DIAGONAL_ID, label="calibrated", zorder=1)
    ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="Observed frequency")
    ax.set(xlabel="Mean predicted probability")
    ax.set_aspect("equal", adjustable="box")


def _by_class(
    y_true: ArrayLike, y_prob: ArrayLike, classes: Sequence[Any] | None
) -> tuple[Any, Floats, Any]:
    """Labels, (n, K) probabilities and the label of each column, or what does not fit."""
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
        raise ValueError(f"y_true holds {unknown[0]!r}, which is none of classes={names.tolist()}.")
    return labels, P, names


@dataclass
class ClasswiseReliabilityDisplay(PanelDisplay):
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

    See Also
    --------
    ReliabilityDisplay : For two classes.

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
        y_true, y_prob : array-like
            Labels of shape (n,), and their predicted probabilities of shape (n, K).
        classes : sequence, optional
            The label of each column; the sorted labels of `y_true` if None.
        n_bins, strategy, sample_weight, confidence : optional
            As in `reliability_curve`, for each class by itself.
        ax : Axes or iterable of Axes, optional
            One axes, which is divided; one axes per class; or None for a new figure.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        ClasswiseReliabilityDisplay
            The display, drawn.
        """
        labels, P, names = _by_class(y_true, y_prob, classes)
        weight = None if sample_weight is None else as_vector(sample_weight, "sample_weight")
        options: dict[str, Any] = {"n_bins": n_bins, "strategy": strategy, "confidence": confidence}
        displays = [
            ReliabilityDisplay(
                reliability_curve(labels == name, p, sample_weight=weight, **options),
                y_prob=p,
                sample_weight=weight,
            )
            for name, p in zip(names, P.T, strict=True)
        ]
        return cls(displays, names.tolist()).plot(ax, **plot_options)

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
        P = _probabilities(estimator, X)
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
        return self
