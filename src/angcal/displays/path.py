"""What each penalty would give: leave-one-out losses and the angle against C."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from angcal._typing import Floats
from angcal.displays.canvas import FAINT, STYLES, fitted_part, panels, plain_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {
    "log_loss": "Log-loss",
    "ece": "ECE",
    "cosine": "Cosine of the angle",
}
# Under weak penalties the uncalibrated loss can be so large that nothing else would be seen.
MOST_ABOVE_CALIBRATED = 1.6


@dataclass
class PenaltyPathDisplay:
    """Leave-one-out log-loss, ECE and cosine against C, the inverse strength of the penalty.

    Parameters
    ----------
    path : PenaltyPath
        ``path_`` of :class:`~angcal.AngularLogisticRegressionCV`.

    Attributes
    ----------
    axes_, figure_, lines_
        The artists of the last `plot`. `lines_` has the calibrated curve of each panel.

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
    axes_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    lines_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Axes | Iterable[Axes] | None = None, **plot_options: Any
    ) -> Self:
        """Draw ``path_`` of a fitted AngularLogisticRegressionCV, or of a Pipeline with one."""
        path = fitted_part(estimator, "path_", cls.__name__)
        return cls(path).plot(ax, **plot_options)

    def plot(
        self,
        ax: Axes | Iterable[Axes] | None = None,
        *,
        show: Sequence[str] = ("log_loss", "ece", "cosine"),
    ) -> Self:
        """Draw one panel below the other; a vertical line marks the chosen penalty.

        Parameters
        ----------
        ax
            One axes, which is divided; one axes per panel; or None for a new figure.
        show
            Which panels, of "log_loss", "ece" and "cosine".
        """
        unknown = [name for name in show if name not in LABELS]
        if unknown or not show:
            raise ValueError(f"show={list(show)!r} must name some of {', '.join(LABELS)}.")
        size = (5.4, 1.4 + 2.1 * len(show))
        self.axes_ = panels("PenaltyPathDisplay", ax, (len(show), 1), size)[: len(show)]
        self.figure_ = self.axes_[0].figure
        draw = {"log_loss": self._draw_log_loss, "ece": self._draw_ece, "cosine": self._draw_cosine}
        self.lines_ = [draw[name](panel) for name, panel in zip(show, self.axes_, strict=True)]
        for name, panel in zip(show, self.axes_, strict=True):
            self._finish(panel, LABELS[name])
        for panel in self.axes_[:-1]:
            panel.tick_params(labelbottom=False)
        self.axes_[-1].set_xlabel("C, from strong to weak penalty")
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
        found, error = self.path.log_loss, self.path.log_loss_se
        self._line(ax, self.path.uncalibrated_log_loss, 1, "uncalibrated")
        line = self._line(ax, found, 0, "calibrated")
        ax.fill_between(
            self.path.C, found - error, found + error, color=line.get_color(), alpha=0.15, lw=0
        )
        _cut_above(ax, found + error, self.path.uncalibrated_log_loss)
        return line

    def _draw_ece(self, ax: Axes) -> Any:
        self._line(ax, self.path.uncalibrated_ece, 1, "uncalibrated")
        line = self._line(ax, self.path.ece, 0, "calibrated")
        ax.set_ylim(bottom=0.0)
        return line

    def _draw_cosine(self, ax: Axes) -> Any:
        line = self._line(ax, self.path.cosine, 0, "cosine, given the link")
        low, high = np.asarray(self.path.cosine_interval).T
        ax.fill_between(self.path.C, low, high, color=line.get_color(), alpha=0.15, lw=0)
        if not np.isfinite(self.path.cosine).any():
            ax.text(0.5, 0.5, "no angle was found", ha="center", transform=ax.transAxes)
        return line


def _cut_above(ax: Axes, calibrated: Floats, uncalibrated: Floats) -> None:
    """Keep the calibrated curve readable where the uncalibrated one runs away."""
    highest = MOST_ABOVE_CALIBRATED * float(np.nanmax(calibrated))
    if float(np.nanmax(uncalibrated)) > highest:
        ax.set_ylim(top=highest)
