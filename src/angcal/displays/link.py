"""The calibrated curve F beside the sigmoid that a logistic model would use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from angcal._typing import Floats
from angcal.displays.canvas import STYLES, fitted_part, own_axes
from angcal.metrics import as_vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_POINTS, N_BINS = 201, 30


@dataclass
class SmoothedLinkDisplay:
    """F(u) = E_Z σ(c·s + √(1−c²)·Z) against the raw sigmoid 1/(1 + e^−u), over the scores u.

    Parameters
    ----------
    grid, calibrated, raw : arrays
        Scores, F and the sigmoid at them.
    scores : array or None
        Scores of rows for the histogram.
    name : str
        Legend entry of F.

    Attributes
    ----------
    ax_, figure_, line_, raw_line_, histogram_ax_
        The artists of the last `plot`; `histogram_ax_` is None where not drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from angcal import AngularCalibratedClassifier, Logit
    >>> from angcal.simulation import simulate
    >>> data = simulate(200, 100, link=Logit(3.0), random_state=0)
    >>> clf = AngularCalibratedClassifier().fit(data.X, data.y)
    >>> display = SmoothedLinkDisplay.from_estimator(clf, ax=Figure().subplots())
    >>> display.raw_line_.get_label()
    'raw sigmoid'
    """

    grid: Floats
    calibrated: Floats
    raw: Floats
    scores: Floats | None = None
    name: str = "calibrated, F"
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    line_: Any = field(default=None, init=False, repr=False)
    raw_line_: Any = field(default=None, init=False, repr=False)
    histogram_ax_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        scores: ArrayLike | None = None,
        *,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw ``curve_`` of a fitted classifier over the range of its scores.

        Parameters
        ----------
        estimator
            A fitted binary calibrator of angcal, or a Pipeline that ends in one.
        scores
            Raw scores ŵᵀx + b̂; the leave-one-out scores of the training rows if None.
        ax
            Axes to draw on; a new figure if None.
        **plot_options
            Passed to `plot`.
        """
        curve = fitted_part(estimator, "curve_", cls.__name__)
        if scores is None:
            scores = fitted_part(estimator, "observables_", cls.__name__).calibration_scores
        values = as_vector(scores, "scores")
        low, high = float(values.min()), float(values.max())
        if low == high:
            low, high = low - 1.0, high + 1.0
        grid = np.linspace(low, high, N_POINTS)
        display = cls(grid, np.asarray(curve.predict(grid)), expit(grid), values)
        return display.plot(ax, **plot_options)

    def plot(self, ax: Axes | None = None, *, histogram: bool = True) -> Self:
        """Draw both curves, and the distribution of the scores below them.

        Parameters
        ----------
        ax
            Axes to draw on; a new figure if None.
        histogram
            Show the distribution of the scores, where they are known.
        """
        scores = self.scores if histogram else None
        if ax is None:
            ax = own_axes("SmoothedLinkDisplay", (5.0, 4.2 if scores is None else 5.0))
        self.ax_, self.figure_ = ax, ax.figure
        (color, _, dash), (raw_color, _, raw_dash) = STYLES[:2]
        (self.raw_line_,) = ax.plot(
            self.grid, self.raw, color=raw_color, ls=raw_dash, lw=2, label="raw sigmoid"
        )
        (self.line_,) = ax.plot(
            self.grid, self.calibrated, color=color, ls=dash, lw=2, label=self.name
        )
        ax.set(xlim=(self.grid[0], self.grid[-1]), ylim=(-0.02, 1.02), ylabel="Probability")
        ax.set(xlabel="Score of the linear model")
        ax.legend(loc="best", frameon=False)
        self.histogram_ax_ = None if scores is None else self._draw_histogram(ax, scores, color)
        return self

    def _draw_histogram(self, ax: Axes, scores: Floats, color: Any) -> Any:
        below: Any = ax.inset_axes((0.0, -0.24, 1.0, 0.18), sharex=ax)
        count, edges = np.histogram(
            scores, bins=N_BINS, range=(float(self.grid[0]), float(self.grid[-1]))
        )
        below.stairs(count / max(count.sum(), 1), edges, color=color, fill=True, alpha=0.45)
        below.set(xlabel=ax.get_xlabel(), ylabel="Share")
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
        return below
