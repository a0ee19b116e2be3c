"""Reliability diagrams of two classes. Matplotlib is imported only when a new figure is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.displays.canvas import FAINT, STYLES, own_axes
from angcal.metrics import ReliabilityCurve, Strategy, as_vector, reliability_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Artists carry these ids so that a second curve on the same axes finds what the first one drew.
CURVE_ID = "angcal-reliability-curve"
DIAGONAL_ID = "angcal-reliability-diagonal"
HISTOGRAM_ID = "angcal-reliability-histogram"


@dataclass
class ReliabilityDisplay:
    """Observed frequency ȳ_b against mean prediction p̄_b, on the square [0, 1]².

    A calibrated predictor follows the diagonal, and stays inside the shaded consistency band of
    each bin with the curve's confidence. Build one with `from_predictions` or `from_estimator`.

    Parameters
    ----------
    curve : ReliabilityCurve
        What to draw.
    name : str or None
        Legend entry.
    y_prob, sample_weight : array or None
        Predictions and weights for the histogram.

    Attributes
    ----------
    ax_, figure_, line_, band_, histogram_ax_
        The artists of the last `plot`; `band_` and `histogram_ax_` are None where not drawn.

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
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
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
        y_true, y_prob, n_bins, strategy, sample_weight, confidence
            As in `reliability_curve`.
        name
            Legend entry.
        ax
            Axes to draw on, possibly with other curves; a new figure if None.
        **plot_options
            Passed to `plot`.
        """
        curve = reliability_curve(
            y_true,
            y_prob,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            confidence=confidence,
        )
        weight = None if sample_weight is None else as_vector(sample_weight, "sample_weight")
        display = cls(curve, name, as_vector(y_prob, "y_prob"), weight)
        return display.plot(ax, **plot_options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any
    ) -> Self:
        """Draw the curve of a fitted binary classifier's ``predict_proba`` on (X, y).

        Labels of any kind are compared with ``estimator.classes_[1]``. `name` defaults to the
        estimator's class; `options` go to `from_predictions`.
        """
        label = type(estimator).__name__
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(f"{label} has no predict_proba; calibrate it first.")
        classes = np.asarray(estimator.classes_)
        if classes.size != 2:
            raise ValueError(
                f"{label} has {classes.size} classes; a reliability diagram needs 2. "
                "Draw each class with ClasswiseReliabilityDisplay.from_estimator."
            )
        labels = np.asarray(y)
        unknown = labels[~np.isin(labels, classes)]
        if unknown.size:
            raise ValueError(f"y holds {unknown[0]!r}, which is not in classes_={classes!r}.")
        y_prob = estimator.predict_proba(X)[:, 1]
        return cls.from_predictions(
            labels == classes[1], y_prob, name=label if name is None else name, **options
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
        ax
            Axes to draw on; a new figure if None.
        name
            Legend entry, if other than the display's own.
        band
            Shade the consistency band.
        histogram
            Show the distribution of predictions below the axes.
        **line_options
            Passed to ``ax.plot``, over the colour, marker and dash that successive curves take.
        """
        if ax is None:
            size = (5.0, 6.3 if histogram else 5.0)
            ax = own_axes("ReliabilityDisplay", size)
        self.ax_, self.figure_ = ax, ax.figure
        self._draw_frame(ax)
        earlier = sum(line.get_gid() == CURVE_ID for line in ax.lines)
        color, marker, dash = STYLES[earlier % len(STYLES)]
        style = {"color": color, "marker": marker, "linestyle": dash, "markersize": 5.5}
        label = self.name if name is None else name
        # Bins at 0 and 1 keep whole markers; "_" hides the unnamed curve from the legend.
        (self.line_,) = ax.plot(
            self.curve.mean_predicted,
            self.curve.observed,
            gid=CURVE_ID,
            label="_curve" if label is None else label,
            **({"clip_on": False, "zorder": 3} | style | line_options),
        )
        shade = self.line_.get_color()
        self.band_ = self._draw_band(ax, shade) if band else None
        self.histogram_ax_ = self._draw_histogram(ax, shade, dash) if histogram else None
        ax.legend(loc="upper left", frameon=False)
        return self

    def _draw_frame(self, ax: Axes) -> None:
        if any(line.get_gid() == DIAGONAL_ID for line in ax.lines):
            return
        ax.plot([0, 1], [0, 1], color=FAINT, lw=1, gid=DIAGONAL_ID, label="calibrated", zorder=1)
        ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="Observed frequency")
        ax.set(xlabel="Mean predicted probability")
        ax.set_aspect("equal", adjustable="box")

    def _draw_band(self, ax: Axes, color: Any) -> Any:
        return ax.fill_between(
            self.curve.mean_predicted,
            self.curve.lower,
            self.curve.upper,
            color=color,
            alpha=0.15,
            linewidth=0,
            zorder=0,
        )

    def _draw_histogram(self, ax: Axes, color: Any, dash: Any) -> Any:
        if self.y_prob is None:
            raise ValueError(
                "histogram=True needs y_prob; build the display with from_predictions."
            )
        drawn = (child for child in ax.child_axes if child.get_gid() == HISTOGRAM_ID)
        below: Any = next(drawn, None)
        if below is None:
            below = ax.inset_axes((0.0, -0.24, 1.0, 0.18), sharex=ax, gid=HISTOGRAM_ID)
            below.set(xlabel=ax.get_xlabel(), ylabel="Share")
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
        weight = np.ones_like(self.y_prob) if self.sample_weight is None else self.sample_weight
        share, edges = np.histogram(
            self.y_prob, bins=25, range=(0.0, 1.0), weights=weight / weight.sum()
        )
        below.stairs(share, edges, color=color, linestyle=dash)
        return below
