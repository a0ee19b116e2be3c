"""What every display shares: colours, matplotlib imported late, panels, the last step."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

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
"""Okabe–Ito colour, marker and dash of successive curves: told apart without colour as well."""

FAINT = "0.4"
"""Grey of what is only there to compare with."""


def pyplot(display: str) -> ModuleType:
    """matplotlib.pyplot, imported when a display needs a figure of its own."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{display} draws with matplotlib, which is not installed; "
            "run: pip install 'angcal[plot]'"
        ) from error
    return plt


def own_axes(display: str, size: tuple[float, float]) -> Axes:
    """The axes of a new figure."""
    return pyplot(display).subplots(figsize=size, layout="constrained")[1]


def panels(
    display: str,
    ax: Axes | Iterable[Axes] | None,
    shape: tuple[int, int],
    size: tuple[float, float],
) -> list[Any]:
    """Axes for rows × columns pictures: those given, those that fit into one, or new ones.

    Parameters
    ----------
    display : str
        Who asks, for messages.
    ax : Axes, iterable of Axes or None
        One axes is emptied and divided; several are taken as they are, row after row; None makes
        a new figure.
    shape : (int, int)
        Rows and columns.
    size : (float, float)
        Of a new figure, in inches.
    """
    rows, columns = shape
    if ax is None:
        figure = pyplot(display).figure(figsize=size, layout="constrained")
        return list(figure.subplots(rows, columns, squeeze=False).ravel())
    if hasattr(ax, "get_subplotspec"):
        whole: Any = ax
        place = whole.get_subplotspec()
        if place is None:
            raise ValueError(
                f"{display} divides ax into {rows * columns} panels and needs one made by "
                "subplots; pass such an axes, or a sequence of axes, one per panel."
            )
        whole.set_axis_off()
        return list(place.subgridspec(rows, columns).subplots(squeeze=False).ravel())
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) < rows * columns:
        raise ValueError(
            f"ax holds {len(given)} axes but {display} draws {rows * columns} panels; pass one "
            "axes for each, or a single one to be divided."
        )
    return given


def last_step(estimator: Any) -> Any:
    """The classifier itself, or the one that a Pipeline ends in."""
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def fitted_part(estimator: Any, attribute: str, display: str) -> Any:
    """``attribute`` of the fitted classifier, or a sentence that says who has it."""
    model = last_step(estimator)
    if not hasattr(model, attribute):
        raise TypeError(
            f"{display} needs {attribute}, which {type(model).__name__} does not have; fit it "
            "first, or pass one of angcal's angular classifiers."
        )
    return getattr(model, attribute)


def plain_number(value: float, _: Any = None) -> str:
    """A tick label without mathematical typesetting."""
    return f"{value:g}".replace("-", "−")
