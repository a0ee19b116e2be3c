"""Learning curves of a plan: expected log-loss and accuracy against the number of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from angcal._typing import Floats
from angcal.displays.style import FAINT, STYLES, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
