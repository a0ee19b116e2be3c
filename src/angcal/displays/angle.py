"""The angle between fitted and true weights: drawn as an angle, or as a matrix of cosines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.displays.style import FAINT, STYLES, Display, fitted_part

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The lower arrow is the wider one, so that both are seen where the angle is small.
FITTED_ARROW: dict[str, Any] = {"color": STYLES[0][0], "lw": 4.5, "ls": "-"}
TRUE_ARROW: dict[str, Any] = {"color": STYLES[1][0], "lw": 2.2, "ls": (0, (4, 1.2))}
DARK_TEXT, LIGHT_TEXT = "#0d0d0d", "#fefefe"


def degrees_of(cosine: float) -> float:
    """θ = arccos(cosine) in degrees."""
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def _written(cosine: float) -> str:
    """Two digits with a true minus sign, and zero without one."""
    return f"{round(float(cosine), 2) + 0.0:.2f}".replace("-", "−")


@dataclass
class AngleDisplay(Display):
    """θ = arccos(c) between the fitted weights and the true ones, with its interval as a wedge.

    The fitted weights are known and lie along the horizontal axis. The true ones are somewhere in
    the wedge, with the interval's confidence.

    Parameters
    ----------
    cosine : float
        c, in [−1, 1].
    interval : (float, float), optional
        Confidence interval of c; None draws no wedge.
    confidence : float, default=0.95
        Level of the interval.

    Attributes
    ----------
    ax_, figure_, fitted_, true_, wedge_
        The artists of the last `plot`; `wedge_` is None where there is no interval.

    See Also
    --------
    AngleMatrixDisplay : For more than two classes.

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
    fitted_: Any = field(default=None, init=False, repr=False)
    true_: Any = field(default=None, init=False, repr=False)
    wedge_: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for value in (self.cosine, *(() if self.interval is None else self.interval)):
            if not -1.0 <= value <= 1.0:
                raise ValueError(f"{value!r} is meant as a cosine; it must lie in [-1, 1].")

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None, **plot_options: Any) -> Self:
        """Draw ``angle_`` of a fitted angular classifier, or of a Pipeline that ends in one.

        Parameters
        ----------
        estimator : object
            The classifier, fitted on two classes.
        ax : Axes, optional
            Axes to draw on; a new figure if None.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        AngleDisplay
            The display, drawn.
        """
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

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw both directions, the wedge and a scale in degrees.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; a new figure if None.

        Returns
        -------
        AngleDisplay
            The display itself.
        """
        from matplotlib.lines import Line2D
        from matplotlib.patches import Wedge

        widest = max(self.degrees, *(self.degree_interval or (0.0,)))
        reach = 90 if widest <= 90.0 else 180
        ax = self._start(ax, (4.4, 4.8) if reach == 90 else (6.0, 4.2))
        _draw_scale(ax, reach)
        away = f"{self.degrees:.0f}° (cosine {f'{self.cosine:.2f}'.replace('-', '−')})"
        handles: list[Any] = [
            Line2D([], [], **FITTED_ARROW, label="fitted weights"),
            Line2D([], [], **TRUE_ARROW, label=f"true weights, about {away} away"),
        ]
        self.wedge_ = None
        if self.degree_interval is not None:
            low, high = self.degree_interval
            look: dict[str, Any] = {"facecolor": TRUE_ARROW["color"], "alpha": 0.2, "linewidth": 0}
            self.wedge_ = Wedge((0.0, 0.0), 1.0, low, high, **look)
            level = f"{100 * self.confidence:g} % interval"
            self.wedge_.set_label(f"{level}, {low:.0f}° to {high:.0f}°")
            ax.add_patch(self.wedge_)
            handles.append(self.wedge_)
        self.fitted_ = _arrow(ax, 0.0, FITTED_ARROW)
        self.true_ = _arrow(ax, self.degrees, TRUE_ARROW)
        ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), frameon=False)
        return self


def _direction(degrees: Any) -> Floats:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def _draw_scale(ax: Axes, reach: int) -> None:
    """A faint protractor up to ``reach`` degrees."""
    ax.plot(*_direction(np.linspace(0.0, reach, 2 * reach + 1)), color=FAINT, lw=0.8, zorder=1)
    for tick in range(0, reach + 1, 30):
        x, y = _direction(tick)
        ax.plot([0.97 * x, 1.02 * x], [0.97 * y, 1.02 * y], color=FAINT, lw=0.8, zorder=1)
        ax.text(1.09 * x, 1.09 * y, f"{tick}°", ha="center", va="center", size=9)
    ax.set(xlim=(-0.08 if reach == 90 else -1.18, 1.18), ylim=(-0.06, 1.16))
    ax.set_aspect("equal", adjustable="box")
    ax.set_axis_off()


def _arrow(ax: Axes, degrees: float, style: dict[str, Any]) -> Any:
    """An arrow of length 1 from the origin: shaft and head apart, so that dashes spare the head."""
    x, y = tip = _direction(degrees)
    (shaft,) = ax.plot([0.0, 0.95 * x], [0.0, 0.95 * y], **style, zorder=3)
    side = 0.012 * (1.0 + style["lw"] / 2.0) * np.array([-y, x])
    corners = np.array([tip, 0.92 * tip + side, 0.92 * tip - side])
    ax.fill(*corners.T, color=style["color"], lw=0, zorder=4)
    return shaft


@dataclass
class AngleMatrixDisplay(Display):
    """cos θ_kj between true weight vector k and fitted weight vector j, for all pairs.

    Parameters
    ----------
    matrix : array-like of shape (K, J)
        Cosines, in [−1, 1]; NaN where there is none.
    row_names, column_names : sequence, optional
        What rows and columns are called; their numbers if None.

    Attributes
    ----------
    ax_, figure_, mesh_, texts_, colorbar_
        The artists of the last `plot`; `texts_` is empty and `colorbar_` None where not drawn.

    See Also
    --------
    AngleDisplay : For two classes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = AngleMatrixDisplay.from_matrix([[0.8, -0.1], [0.0, 0.7]], ax=Figure().subplots())
    >>> [text.get_text() for text in display.texts_]
    ['0.80', '−0.10', '0.00', '0.70']
    """

    matrix: Floats
    row_names: Sequence[Any] | None = None
    column_names: Sequence[Any] | None = None
    mesh_: Any = field(default=None, init=False, repr=False)
    texts_: Any = field(default=None, init=False, repr=False)
    colorbar_: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.matrix = np.asarray(self.matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or not self.matrix.size:
            raise ValueError(
                f"matrix has shape {self.matrix.shape} but must have rows and columns of cosines."
            )
        # Rounding may put a computed cosine a little outside [-1, 1].
        outside = self.matrix[np.abs(self.matrix) > 1.0 + 1e-6]
        if outside.size:
            raise ValueError(f"matrix holds {outside[0]:g}, but a cosine lies in [-1, 1].")
        given = (("row_names", self.row_names), ("column_names", self.column_names))
        for (name, names), count in zip(given, self.matrix.shape, strict=True):
            if names is not None and len(names) != count:
                raise ValueError(
                    f"{name} has {len(names)} entries but matrix has {count}; pass one for each."
                )

    @classmethod
    def from_matrix(
        cls,
        matrix: ArrayLike,
        row_names: Sequence[Any] | None = None,
        column_names: Sequence[Any] | None = None,
        *,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw a plain matrix.

        Parameters
        ----------
        matrix : array-like of shape (K, J)
            Cosines.
        row_names, column_names : sequence, optional
            What rows and columns are called; their numbers if None.
        ax : Axes, optional
            Axes to draw on; a new figure if None.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        AngleMatrixDisplay
            The display, drawn.
        """
        display = cls(np.asarray(matrix, dtype=np.float64), row_names, column_names)
        return display.plot(ax, **plot_options)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None, **plot_options: Any) -> Self:
        """Draw ``angle_`` of a classifier that was fitted on three or more classes.

        Parameters
        ----------
        estimator : object
            The classifier, or a Pipeline that ends in it.
        ax : Axes, optional
            Axes to draw on; a new figure if None.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        AngleMatrixDisplay
            The display, drawn.
        """
        matrix = np.asarray(fitted_part(estimator, "angle_", cls.__name__).cosine, dtype=np.float64)
        if matrix.ndim != 2:
            raise TypeError(
                "The angle of two classes is one number; draw it with AngleDisplay.from_estimator."
            )
        classes = list(fitted_part(estimator, "classes_", cls.__name__))
        columns = classes if matrix.shape[1] == len(classes) else None
        return cls.from_matrix(matrix, classes, columns, ax=ax, **plot_options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        cmap: Any = "RdBu",
        annotate: bool = True,
        colorbar: bool = True,
    ) -> Self:
        """Draw the matrix, its first row on top.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; a new figure if None.
        cmap : str or Colormap, default="RdBu"
            A diverging color map; its middle is at a cosine of 0.
        annotate : bool, default=True
            Write every cosine into its cell.
        colorbar : bool, default=True
            Draw the scale of colors beside the axes.

        Returns
        -------
        AngleMatrixDisplay
            The display itself.
        """
        rows, columns = self.matrix.shape
        ax = self._start(ax, (2.4 + 0.6 * columns, 1.4 + 0.6 * rows))
        ax.set_facecolor("#bdbdbd")  # shows where there is no cosine
        across, down = np.arange(columns + 1), np.arange(rows + 1)
        known = np.ma.masked_invalid(self.matrix)
        self.mesh_ = ax.pcolormesh(across, down, known, cmap=cmap, vmin=-1.0, vmax=1.0)
        ax.set(xlim=(0, columns), ylim=(rows, 0), xlabel="Fitted weights", ylabel="True weights")
        ax.set_aspect("equal", adjustable="box")
        ax.set_xticks(across[:-1] + 0.5)
        ax.set_yticks(down[:-1] + 0.5)
        # Names are data: their dollar signs are no mathematics.
        ax.set_xticklabels(_names(self.column_names, columns), parse_math=False)
        ax.set_yticklabels(_names(self.row_names, rows), parse_math=False)
        self.texts_ = self._write_cosines(ax) if annotate else []
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = ax.figure.colorbar(self.mesh_, ax=ax, label="cosine", shrink=0.85)
        return self

    def _write_cosines(self, ax: Axes) -> list[Any]:
        texts = []
        for (row, column), cosine in np.ndenumerate(self.matrix):
            known = bool(np.isfinite(cosine))
            color = _readable_on(self.mesh_.to_rgba(cosine)) if known else DARK_TEXT
            written = _written(cosine) if known else "–"
            texts.append(
                ax.text(column + 0.5, row + 0.5, written, ha="center", va="center", color=color)
            )
        return texts


def _names(names: Sequence[Any] | None, count: int) -> list[str]:
    return [str(name) for name in (range(count) if names is None else names)]


def _readable_on(rgba: Any) -> str:
    """Dark or light text, whichever contrasts more with this color."""
    channels = np.asarray(rgba[:3], dtype=np.float64)
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    # Contrast with white is 1.05/(L + 0.05), with black (L + 0.05)/0.05; they are equal at 0.179.
    return DARK_TEXT if luminance > 0.179 else LIGHT_TEXT
