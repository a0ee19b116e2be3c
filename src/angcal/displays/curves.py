"""Curves: F beside the raw sigmoid, losses and angle against C, what is expected against n."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from angcal._typing import Floats
from angcal.displays.style import (
    FAINT,
    STYLES,
    Display,
    PanelDisplay,
    fitted_part,
    histogram_below,
    plain_number,
    shade,
)
from angcal.metrics import as_vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class SmoothedLinkDisplay(Display):
    """F(u) = E_Z σ(c·s + √(1−c²)·Z) against the raw sigmoid 1/(1 + e^−u), over the scores u.

    Parameters
    ----------
    grid, calibrated, raw : ndarray
        Scores, F and the sigmoid at them.
    scores : ndarray, optional
        Scores of rows for the histogram.
    name : str, default="calibrated, F"
        Legend entry of F.

    Attributes
    ----------
    ax_, figure_, line_, raw_line_, histogram_ax_
        The artists of the last `plot`; `histogram_ax_` is None where not drawn.

    See Also
    --------
    AngleDisplay : The angle that the curve rests on.

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
        estimator : object
            A fitted calibrator of two classes, or a Pipeline that ends in one.
        scores : array-like, optional
            Raw scores ŵᵀx + b̂; the leave-one-out scores of the training rows if None.
        ax : Axes, optional
            Axes to draw on; a new figure if None.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        SmoothedLinkDisplay
            The display, drawn.
        """
        curve = fitted_part(estimator, "curve_", cls.__name__)
        count = len(fitted_part(estimator, "classes_", cls.__name__))
        if count > 2:
            raise TypeError(
                f"{count} classes have as many scores, and no one curve; compare plain_loo_proba_ "
                "with loo_proba_, or draw both with ReliabilityDisplay.from_predictions."
            )
        if scores is None:
            scores = fitted_part(estimator, "observables_", cls.__name__).calibration_scores
        values = as_vector(scores, "scores")
        low, high = float(values.min()), float(values.max())
        if low == high:
            low, high = low - 1.0, high + 1.0
        grid = np.linspace(low, high, 201)
        display = cls(grid, np.asarray(curve.predict(grid)), expit(grid), values)
        return display.plot(ax, **plot_options)

    def plot(self, ax: Axes | None = None, *, histogram: bool = True) -> Self:
        """Draw both curves, and the distribution of the scores below them.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; a new figure if None.
        histogram : bool, default=True
            Show the distribution of the scores, where they are known.

        Returns
        -------
        SmoothedLinkDisplay
            The display itself.
        """
        scores = self.scores if histogram else None
        ax = self._start(ax, (5.0, 4.2 if scores is None else 5.0))
        (color, _, dash), (raw_color, _, raw_dash) = STYLES[:2]
        (self.raw_line_,) = ax.plot(
            self.grid, self.raw, color=raw_color, ls=raw_dash, lw=2, label="raw sigmoid"
        )
        (self.line_,) = ax.plot(
            self.grid, self.calibrated, color=color, ls=dash, lw=2, label=self.name
        )
        span = (float(self.grid[0]), float(self.grid[-1]))
        ax.set(xlim=span, ylim=(-0.02, 1.02), ylabel="Probability")
        ax.set(xlabel="Score of the linear model")
        ax.legend(loc="best", frameon=False)
        self.histogram_ax_ = None
        if scores is not None:
            look: dict[str, Any] = {"color": color, "fill": True, "alpha": 0.45}
            self.histogram_ax_ = histogram_below(ax, scores, np.ones_like(scores), 30, span, **look)
        return self


@dataclass
class PenaltyPathDisplay(PanelDisplay):
    """Leave-one-out log-loss, ECE and cosine against C, the inverse strength of the penalty.

    For three and more classes the ECE is that of the likeliest class, and there is no cosine.

    Parameters
    ----------
    path : PenaltyPath
        ``path_`` of :class:`~angcal.AngularLogisticRegressionCV`.

    Attributes
    ----------
    axes_, figure_, lines_
        The artists of the last `plot`. `lines_` has the calibrated curve of each panel.

    See Also
    --------
    angcal.AngularLogisticRegressionCV : Chooses the penalty.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from angcal import AngularLogisticRegressionCV, Logit
    >>> from angcal.simulation import simulate
    >>> data = simulate(200, 100, link=Logit(3.0), random_state=0)
    >>> clf = AngularLogisticRegressionCV(Cs=5).fit(data.X, data.y)
    >>> display = PenaltyPathDisplay.from_estimator(clf, ax=Figure().subplots())
    >>> [len(line.get_xdata()) for line in display.lines_]
    [5, 5, 5]
    """

    path: Any
    lines_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Axes | Iterable[Axes] | None = None, **plot_options: Any
    ) -> Self:
        """Draw ``path_`` of a fitted AngularLogisticRegressionCV, or of a Pipeline with one.

        Parameters
        ----------
        estimator : object
            The classifier.
        ax : Axes or iterable of Axes, optional
            One axes, which is divided; one axes per panel; or None for a new figure.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        PenaltyPathDisplay
            The display, drawn.
        """
        return cls(fitted_part(estimator, "path_", cls.__name__)).plot(ax, **plot_options)

    def plot(
        self,
        ax: Axes | Iterable[Axes] | None = None,
        *,
        show: Sequence[str] | None = None,
    ) -> Self:
        """Draw one panel below the other; a vertical line marks the chosen penalty.

        Parameters
        ----------
        ax : Axes or iterable of Axes, optional
            One axes, which is divided; one axes per panel; or None for a new figure.
        show : sequence of str, optional
            Which panels, of "log_loss", "ece" and "cosine"; by default all that the path has.

        Returns
        -------
        PenaltyPathDisplay
            The display itself.
        """
        kinds = {
            "log_loss": ("Log-loss", self._draw_log_loss),
            "ece": ("ECE", self._draw_ece),
            "cosine": ("Cosine of the angle", self._draw_cosine),
        }
        if show is None:
            has_cosine = bool(np.isfinite(self.path.cosine).any())
            show = [name for name in kinds if has_cosine or name != "cosine"]
        if not show or not set(show) <= set(kinds):
            raise ValueError(f"show={list(show)!r} must name some of {', '.join(kinds)}.")
        count = len(show)
        axes = self._start(ax, count, (count, 1), (5.4, 1.4 + 2.1 * count))
        self.lines_ = []
        for name, panel in zip(show, axes, strict=True):
            label, draw = kinds[name]
            self.lines_.append(draw(panel))
            self._finish(panel, label)
        for panel in axes[:-1]:
            panel.tick_params(labelbottom=False)
        axes[-1].set_xlabel("C, from strong to weak penalty")
        return self

    def _finish(self, ax: Axes, label: str) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        chosen = float(self.path.C[self.path.index])
        ax.axvline(chosen, color=FAINT, lw=1, zorder=0, label=f"chosen, C = {chosen:.2g}")
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(numticks=6))
        ax.xaxis.set_major_formatter(FuncFormatter(plain_number))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_ylabel(label)
        ax.legend(loc="best", frameon=False, fontsize="small")

    def _line(self, ax: Axes, values: Floats, style: int, label: str) -> Any:
        color, marker, dash = STYLES[style]
        (line,) = ax.plot(
            self.path.C, values, color=color, marker=marker, ls=dash, ms=4, label=label, zorder=3
        )
        return line

    def _draw_log_loss(self, ax: Axes) -> Any:
        mean, error = self.path.log_loss, self.path.log_loss_se
        plain = self.path.uncalibrated_log_loss
        self._line(ax, plain, 1, "uncalibrated")
        line = self._line(ax, mean, 0, "calibrated")
        shade(ax, self.path.C, mean - error, mean + error, line)
        # Under weak penalties the uncalibrated loss can be so large that nothing else would show.
        highest = 1.6 * float(np.nanmax(mean + error))
        if float(np.nanmax(plain)) > highest:
            ax.set_ylim(top=highest)
        return line

    def _draw_ece(self, ax: Axes) -> Any:
        self._line(ax, self.path.uncalibrated_ece, 1, "uncalibrated")
        line = self._line(ax, self.path.ece, 0, "calibrated")
        ax.set_ylim(bottom=0.0)
        return line

    def _draw_cosine(self, ax: Axes) -> Any:
        line = self._line(ax, self.path.cosine, 0, "cosine, given the link")
        low, high = np.asarray(self.path.cosine_interval).T
        shade(ax, self.path.C, low, high, line)
        if not np.isfinite(self.path.cosine).any():
            ax.text(0.5, 0.5, "no angle was found", ha="center", transform=ax.transAxes)
        return line


@dataclass
class PlanDisplay(Display):
    """Expected value of one measure against n, with its 80 % band and the ceiling.

    Parameters
    ----------
    n, expected : ndarray
        Labels, and what is expected of them.
    interval : ndarray of shape (k, 2)
        80 % intervals.
    ceiling : float, optional
        What unlimited labels reach.
    pilot : tuple of float, optional
        Labels of the pilot and what they have now.
    name : str, default="accuracy"
        What is drawn.

    Attributes
    ----------
    ax_, figure_, line_
        The artists of the last `plot`.

    See Also
    --------
    angcal.planner.Plan : What is drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from angcal.planner import plan_from_assumptions
    >>> plan = plan_from_assumptions(50, ceiling=0.85, n=[50, 100, 200])
    >>> display = PlanDisplay.from_plan(plan, "accuracy", ax=Figure().subplots())
    >>> display.ax_.get_ylabel()
    'accuracy'
    """

    n: Floats
    expected: Floats
    interval: Floats
    ceiling: float | None = None
    pilot: tuple[float, float] | None = None
    name: str = "accuracy"

    @classmethod
    def from_plan(cls, plan: Any, name: str = "accuracy", *, ax: Axes | None = None) -> PlanDisplay:
        """Draw a measure of a plan, on a fine grid between its numbers of labels.

        Parameters
        ----------
        plan : angcal.planner.Plan
            What to draw.
        name : {"accuracy", "log_loss", "cosine", "ece"}, default="accuracy"
            Which measure.
        ax : matplotlib axes, optional
            Where; a new figure by default.

        Returns
        -------
        PlanDisplay
            The drawn display.
        """
        least = plan.pilot_n if plan.pilot_n else plan.n.min()
        n = np.geomspace(least, max(plan.n.max(), 1.001 * least), 60)
        expected, interval = plan.curve.at(name, n)
        ceiling = plan.ceiling[name][0] if name in plan.ceiling else None
        pilot = (plan.pilot_n, plan.pilot[name]) if name in plan.pilot else None
        return cls(n, expected, interval, ceiling, pilot, name.replace("_", "-")).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> PlanDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where; a new figure by default.

        Returns
        -------
        PlanDisplay
            Itself.
        """
        axes = self._start(ax, (5.0, 3.6))
        color, marker, _ = STYLES[0]
        (self.line_,) = axes.plot(self.n, self.expected, color=color, label="expected")
        if np.ptp(self.interval, axis=1).max() > 0:
            axes.fill_between(self.n, *self.interval.T, color=color, alpha=0.2, label="80 %")
        if self.ceiling is not None:
            axes.axhline(self.ceiling, color=FAINT, linestyle="--", label="unlimited labels")
        if self.pilot is not None:
            axes.plot(*self.pilot, color="black", marker=marker, linestyle="none", label="now")
        axes.set_xscale("log")
        doublings = self.n[0] * 2.0 ** np.arange(np.log2(self.n[-1] / self.n[0]) + 0.01)
        axes.set_xticks(doublings, [f"{each:.0f}" for each in doublings])
        axes.minorticks_off()
        axes.set_xlabel("labels")
        axes.set_ylabel(self.name)
        axes.legend()
        return self
