"""The angle between fitted and true weights, drawn as an angle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from angcal.displays.canvas import FAINT, STYLES, fitted_part, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICK_STEP, TICK_RADIUS = 30, 1.09
FITTED_COLOR, TRUE_COLOR = STYLES[0][0], STYLES[1][0]
# The lower arrow is the wider one, so that both are seen where the angle is small.
FITTED_WIDTH, TRUE_WIDTH, TRUE_DASH = 4.5, 2.2, (0, (4, 1.2))


def degrees_of(cosine: float) -> float:
    """θ = arccos(cosine) in degrees."""
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


@dataclass
class AngleDisplay:
    """θ = arccos(c) between the fitted weights and the true ones, with its interval as a wedge.

    The fitted weights are known and lie along the horizontal axis. The true ones are somewhere in
    the wedge, with the interval's confidence.

    Parameters
    ----------
    cosine : float
        c, in [−1, 1].
    interval : (float, float) or None
        Confidence interval of c; None draws no wedge.
    confidence : float
        Level of the interval.

    Attributes
    ----------
    ax_, figure_, fitted_, true_, wedge_
        The artists of the last `plot`; `wedge_` is None where there is no interval.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = AngleDisplay(0.5, (0.0, 0.9)).plot(Figure().subplots())
    >>> round(display.degrees), round(display.wedge_.theta2)
    (60, 90)
    """

    cosine: float
    interval: tuple[float, float] | None = None
    confidence: float = 0.95
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    fitted_: Any = field(default=None, init=False, repr=False)
    true_: Any = field(default=None, init=False, repr=False)
    wedge_: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what is no cosine."""
        for value in (self.cosine, *(() if self.interval is None else self.interval)):
            if not -1.0 <= value <= 1.0:
                raise ValueError(f"{value!r} is meant as a cosine; it must lie in [-1, 1].")

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None, **plot_options: Any) -> Self:
        """Draw ``angle_`` of a fitted angular classifier, or of a Pipeline that ends in one."""
        angle = fitted_part(estimator, "angle_", cls.__name__)
        if np.ndim(angle.cosine):
            raise TypeError(
                "There is more than one angle for three or more classes; draw them with "
                "AngleMatrixDisplay.from_estimator."
            )
        return cls(angle.cosine, angle.interval, angle.confidence).plot(ax, **plot_options)

    @property
    def degrees(self) -> float:
        """θ in degrees."""
        return degrees_of(self.cosine)

    @property
    def degree_interval(self) -> tuple[float, float] | None:
        """The interval of θ in degrees: the larger the cosine, the smaller the angle."""
        if self.interval is None:
            return None
        low, high = sorted(degrees_of(cosine) for cosine in self.interval)
        return low, high

    @property
    def _written(self) -> str:
        cosine = f"{self.cosine:.2f}".replace("-", "−")
        return f"{self.degrees:.0f}° (cosine {cosine})"

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw both directions, the wedge and a scale in degrees.

        Parameters
        ----------
        ax
            Axes to draw on; a new figure if None.
        """
        from matplotlib.lines import Line2D
        from matplotlib.patches import Wedge

        widest = max(self.degrees, *(self.degree_interval or (0.0,)))
        reach = 90 if widest <= 90.0 else 180
        if ax is None:
            ax = own_axes("AngleDisplay", (4.4, 4.8) if reach == 90 else (6.0, 4.2))
        self.ax_, self.figure_ = ax, ax.figure
        _draw_scale(ax, reach)
        handles = [
            Line2D([], [], color=FITTED_COLOR, lw=FITTED_WIDTH, label="fitted weights"),
            Line2D(
                [],
                [],
                color=TRUE_COLOR,
                lw=TRUE_WIDTH,
                ls=TRUE_DASH,
                label=f"true weights, about {self._written} away",
            ),
        ]
        self.wedge_ = None
        if self.degree_interval is not None:
            low, high = self.degree_interval
            self.wedge_ = Wedge(
                (0.0, 0.0), 1.0, low, high, facecolor=TRUE_COLOR, alpha=0.2, linewidth=0
            )
            self.wedge_.set_label(
                f"{100 * self.confidence:g} % interval, {low:.0f}° to {high:.0f}°"
            )
            ax.add_patch(self.wedge_)
            handles.append(self.wedge_)
        self.fitted_ = _arrow(ax, 0.0, FITTED_COLOR, "-", FITTED_WIDTH)
        self.true_ = _arrow(ax, self.degrees, TRUE_COLOR, TRUE_DASH, TRUE_WIDTH)
        ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), frameon=False)
        return self


def _draw_scale(ax: Axes, reach: int) -> None:
    """A faint protractor up to ``reach`` degrees."""
    turn = np.radians(np.linspace(0.0, reach, 2 * reach + 1))
    ax.plot(np.cos(turn), np.sin(turn), color=FAINT, lw=0.8, zorder=1)
    for tick in range(0, reach + 1, TICK_STEP):
        x, y = np.cos(np.radians(tick)), np.sin(np.radians(tick))
        ax.plot([0.97 * x, 1.02 * x], [0.97 * y, 1.02 * y], color=FAINT, lw=0.8, zorder=1)
        ax.text(TICK_RADIUS * x, TICK_RADIUS * y, f"{tick}°", ha="center", va="center", size=9)
    ax.set(xlim=(-0.08 if reach == 90 else -1.18, 1.18), ylim=(-0.06, 1.16))
    ax.set_aspect("equal", adjustable="box")
    ax.set_axis_off()


def _arrow(ax: Axes, degrees: float, color: str, dash: Any, width: float) -> Any:
    """An arrow of length 1 from the origin: shaft and head apart, so that dashes spare the head."""
    x, y = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    (shaft,) = ax.plot([0.0, 0.95 * x], [0.0, 0.95 * y], color=color, lw=width, ls=dash, zorder=3)
    side = 0.012 * (1.0 + width / 2.0) * np.array([-y, x])
    tip, back = np.array([x, y]), 0.92 * np.array([x, y])
    corners = np.array([tip, back + side, back - side])
    ax.fill(corners[:, 0], corners[:, 1], color=color, lw=0, zorder=4)
    return shaft
