"""What every display shares: colors, matplotlib imported late, axes, panels, the last step."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from angcal._typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#E69F00", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#56B4E9", "P", (0, (8, 2))),
    ("#000000", "X", (0, (1, 2))),
)
"""Okabe–Ito color, marker and dash of successive curves, which differ without color as well."""

FAINT = "0.4"
"""Gray of what is only there to compare with."""


class Display:
    """A picture on one axes."""

    ax_: Any = None
    figure_: Any = None

    def _start(self, ax: Axes | None, size: tuple[float, float]) -> Axes:
        """The axes given, or those of a new figure of this size in inches."""
        if ax is None:
            plt = _pyplot(type(self).__name__)
            ax = plt.subplots(figsize=size, layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax


class PanelDisplay:
    """Pictures side by side, one on each axes."""

    axes_: Any = None
    figure_: Any = None

    def _start(
        self,
        ax: Axes | Iterable[Axes] | None,
        count: int,
        shape: tuple[int, int],
        size: tuple[float, float],
    ) -> list[Any]:
        """`count` axes out of rows × columns; the rest are switched off.

        One axes is emptied and divided; more than one are taken as they are, row after row; None
        makes a new figure of this size in inches.
        """
        display, panels = type(self).__name__, shape[0] * shape[1]
        if ax is None:
            figure = _pyplot(display).figure(figsize=size, layout="constrained")
            made = figure.subplots(*shape, squeeze=False).ravel()
        elif hasattr(ax, "get_subplotspec"):
            whole: Any = ax
            if whole.get_subplotspec() is None:
                raise ValueError(
                    f"{display} divides ax into {panels} panels and needs one made by subplots; "
                    "pass such an axes, or a sequence of axes, one per panel."
                )
            whole.set_axis_off()
            made = whole.get_subplotspec().subgridspec(*shape).subplots(squeeze=False).ravel()
        else:
            made = np.ravel(np.asarray(ax, dtype=object))
            if len(made) < panels:
                raise ValueError(
                    f"ax holds {len(made)} axes but {display} draws {panels} panels; pass one "
                    "axes for each, or a single one to be divided."
                )
        for empty in made[count:]:
            empty.set_axis_off()
        self.axes_, self.figure_ = list(made[:count]), made[0].figure
        return self.axes_


def _pyplot(display: str) -> ModuleType:
    """matplotlib.pyplot, imported when a display needs a figure of its own."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{display} draws with matplotlib, which is not installed; "
            "run: pip install 'angcal[plot]'"
        ) from error
    return plt


def histogram_below(
    ax: Axes, values: Floats, weights: Floats, n_bins: int, span: tuple[float, float], **style: Any
) -> Any:
    """Shares of the values in an axes below `ax`, which a second curve finds again."""
    gid = "angcal-histogram"
    below: Any = next((child for child in ax.child_axes if child.get_gid() == gid), None)
    if below is None:
        below = ax.inset_axes((0.0, -0.24, 1.0, 0.18), sharex=ax, gid=gid)
        below.set(xlabel=ax.get_xlabel(), ylabel="Share")
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
    share, edges = np.histogram(values, bins=n_bins, range=span, weights=weights)
    below.stairs(share / (share.sum() or 1.0), edges, **style)
    return below


def curves_on(ax: Axes, gid: str) -> int:
    """How many curves of one kind the axes have already, which carry its id."""
    return sum(line.get_gid() == gid for line in ax.lines)


def add_curve(
    ax: Axes, gid: str, x: Floats, y: Floats, name: str | None, options: dict[str, Any]
) -> Any:
    """A line in the color and dash that come after those of its kind; `options` go over these."""
    color, _, dash = STYLES[curves_on(ax, gid) % len(STYLES)]
    # "_" hides an unnamed curve from the legend.
    look = {"color": color, "linestyle": dash, "zorder": 3} | options
    (line,) = ax.plot(x, y, gid=gid, label="_curve" if name is None else name, **look)
    return line


def shade(ax: Axes, x: Floats, low: Floats, high: Floats, line: Any) -> Any:
    """A faint band in the color of a line."""
    return ax.fill_between(x, low, high, color=line.get_color(), alpha=0.15, lw=0, zorder=0)


def probabilities_of(estimator: Any, X: Any) -> Any:
    """``predict_proba`` of rows, or what is wrong."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(f"{type(estimator).__name__} has no predict_proba; calibrate it first.")
    return estimator.predict_proba(X)


def last_step(estimator: Any) -> Any:
    """The classifier itself, or the one that a Pipeline ends in."""
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def fitted_part(estimator: Any, attribute: str, display: str) -> Any:
    """``attribute`` of a fitted classifier, or of the one that a Pipeline ends in."""
    model = last_step(estimator)
    # A model that was saved without it says so itself.
    if not (hasattr(model, attribute) or hasattr(model, "_saved_without_training")):
        raise TypeError(
            f"{display} needs {attribute}, which {type(model).__name__} does not have; fit it "
            "first, or pass one of angcal's angular classifiers."
        )
    return getattr(model, attribute)


def plain_number(value: float, _: Any = None) -> str:
    """A tick label without mathematical typesetting."""
    return f"{value:g}".replace("-", "−")
