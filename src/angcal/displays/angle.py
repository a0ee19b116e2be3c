"""The angle between fitted and true weights: an angle, a matrix of cosines, or class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.displays.style import FAINT, STYLES, Display, fitted_part, last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def degrees_of(cosine: float) -> float:
    """θ = arccos(cosine) in degrees."""
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def is_determined(method: str, link: Any = None) -> bool:
    """Whether more than labels determines the angle: Σ, a pool, the user, or a link that is known.

    Labels alone leave it open however narrow its interval: a stronger signal seen at a wider angle
    gives nearly the same probabilities, and the prior on its strength settles the rest. The method
    is ``angle_.method``, the link as it was given to the classifier.
    """
    estimated = isinstance(link, str) or getattr(link, "covariance", link) is None
    return method != "loo" or not estimated


def degrees_between(cosines: Any) -> tuple[float, float]:
    """The interval of θ in degrees: the larger the cosine, the smaller the angle."""
    low, high = sorted(degrees_of(cosine) for cosine in cosines)
    return low, high


def shared_angle(angle: Any) -> tuple[float, tuple[float, float]] | None:
    """(cosine, interval) of two classes, or of more that have one angle, as from labels alone.

    None where they differ.
    """
    if np.ndim(angle.cosine) == 0:
        return angle.cosine, angle.interval
    # Rounding may put a computed cosine a little outside [-1, 1].
    cosines = np.clip(np.diagonal(angle.cosine), -1.0, 1.0)
    ends = np.clip([np.diagonal(angle.interval[..., end]) for end in (0, 1)], -1.0, 1.0)
    if np.ptp(cosines) > 1e-9 or np.ptp(ends, axis=1).max() > 1e-9:
        return None
    return float(cosines[0]), (float(ends[0, 0]), float(ends[1, 0]))


def _written(cosine: float) -> str:
    """Two digits with a true minus sign, and zero without one."""
    return f"{round(float(cosine), 2) + 0.0:.2f}".replace("-", "−")


@dataclass
class AngleDisplay(Display):
    """θ = arccos(c) between the fitted weights and the true ones, with its interval as a wedge.

    The fitted weights are known and lie along the horizontal axis. The true ones are somewhere in
    the wedge, with the interval's confidence. Where labels alone do not determine the angle, the
    wedge is all that is known; a thin line marks the posterior mean of c.

    Parameters
    ----------
    cosine : float
        c, in [−1, 1].
    interval : (float, float), optional
        Confidence interval of c; None draws no wedge.
    confidence : float, default=0.95
        Level of the interval.
    determined : bool, default=True
        Whether c is an estimate; otherwise it is no more than the mean of what labels leave open.

    Attributes
    ----------
    ax_, figure_, fitted_, true_, wedge_
        The artists of the last `plot`; `true_` is the line of the posterior mean where the angle
        is not determined, and `wedge_` is None where there is no interval.

    See Also
    --------
    AngleMatrixDisplay : For classes that each have their own angle.

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
    determined: bool = True
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
            The classifier. Three and more classes have one angle where labels are all there is.
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
        shared = shared_angle(angle)
        if shared is None:
            raise TypeError(
                "Each of these classes has its own angle; draw them with "
                "AngleMatrixDisplay.from_estimator."
            )
        known = is_determined(angle.method, getattr(last_step(estimator), "link", None))
        return cls(*shared, angle.confidence, known).plot(ax, **plot_options)

    @property
    def degrees(self) -> float:
        """θ in degrees."""
        return degrees_of(self.cosine)

    @property
    def degree_interval(self) -> tuple[float, float] | None:
        """The interval of θ in degrees."""
        return None if self.interval is None else degrees_between(self.interval)

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
        widest = max(self.degrees, *(self.degree_interval or (0.0,)))
        reach = 90 if widest <= 90.0 else 180
        ax = self._start(ax, (4.4, 4.8) if reach == 90 else (6.0, 4.2))
        _draw_scale(ax, reach)
        self.wedge_ = self._draw_wedge(ax)
        fitted, true = STYLES[0][0], STYLES[1][0]
        away = f"{self.degrees:.0f}° (cosine {_written(self.cosine)})"
        if self.determined:
            look: dict[str, Any] = {"color": true, "lw": 2.2, "ls": (0, (4, 1.2))}
            self.true_ = _arrow(ax, self.degrees, f"true weights, about {away} away", look)
        else:
            x, y = _direction(self.degrees)
            look = {"color": true, "lw": 1.4, "ls": (0, (1, 1.5)), "zorder": 3}
            (self.true_,) = ax.plot([0.0, x], [0.0, y], label=f"posterior mean, {away}", **look)
        # The lower arrow is the wider one, so that both are seen where the angle is small.
        look = {"color": fitted, "lw": 4.5, "ls": "-"}
        self.fitted_ = _arrow(ax, 0.0, "fitted weights", look)
        # The wedge comes second where it is all that is known.
        handles = [self.true_, self.wedge_][:: 1 if self.determined else -1]
        handles = [self.fitted_, *(handle for handle in handles if handle is not None)]
        ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), frameon=False)
        return self

    def _draw_wedge(self, ax: Axes) -> Any:
        from matplotlib.patches import Wedge

        if self.degree_interval is None:
            return None
        low, high = self.degree_interval
        look: dict[str, Any] = {"facecolor": STYLES[1][0], "alpha": 0.2 if self.determined else 0.3}
        whose = "" if self.determined else "true weights, "
        label = f"{whose}{100 * self.confidence:g} % interval, {low:.0f}° to {high:.0f}°"
        return ax.add_patch(Wedge((0, 0), 1.0, low, high, linewidth=0, label=label, **look))


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


def _arrow(ax: Axes, degrees: float, label: str, style: dict[str, Any]) -> Any:
    """An arrow of length 1 from the origin: shaft and head apart, so that dashes spare the head."""
    x, y = tip = _direction(degrees)
    (shaft,) = ax.plot([0.0, 0.95 * x], [0.0, 0.95 * y], label=label, **style, zorder=3)
    side = 0.012 * (1.0 + style["lw"] / 2.0) * np.array([-y, x])
    corners = np.array([tip, 0.92 * tip + side, 0.92 * tip - side])
    ax.fill(*corners.T, color=style["color"], lw=0, zorder=4)
    return shaft


@dataclass
class AngleMatrixDisplay(Display):
    """cos θ_kj between true weight vector k and fitted weight vector j, for all pairs.

    Of more than twelve classes it shows each class's own cosine θ_kk with its interval, the
    smallest on top; classes that share one are one line.

    Parameters
    ----------
    matrix : array-like of shape (K, J)
        Cosines, in [−1, 1]; NaN where there is none.
    row_names, column_names : sequence, optional
        What rows and columns are called; their numbers if None.
    interval : array-like of shape (K, J, 2), optional
        Confidence intervals of the cosines, for classes that are drawn one by one.
    determined : bool, default=True
        Whether the cosines are estimates; otherwise a title calls them posterior means.

    Attributes
    ----------
    ax_, figure_, mesh_, texts_, colorbar_, lines_
        The artists of the last `plot`; `texts_` is empty and `mesh_`, `colorbar_` and `lines_` are
        None where not drawn.

    See Also
    --------
    AngleDisplay : For two classes, and for more that share one angle.

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
    interval: Floats | None = None
    determined: bool = True
    mesh_: Any = field(default=None, init=False, repr=False)
    texts_: Any = field(default=None, init=False, repr=False)
    colorbar_: Any = field(default=None, init=False, repr=False)
    lines_: Any = field(default=None, init=False, repr=False)

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
        if self.interval is not None:
            self.interval = np.asarray(self.interval, dtype=np.float64)
            if self.interval.shape != (*self.matrix.shape, 2):
                raise ValueError(
                    f"interval has shape {self.interval.shape} but must be "
                    f"{(*self.matrix.shape, 2)}: two ends of every cosine."
                )
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
        angle = fitted_part(estimator, "angle_", cls.__name__)
        matrix = np.asarray(angle.cosine, dtype=np.float64)
        if matrix.ndim != 2:
            raise TypeError(
                "The angle of two classes is one number; draw it with AngleDisplay.from_estimator."
            )
        classes = list(fitted_part(estimator, "classes_", cls.__name__))
        columns = classes if matrix.shape[1] == len(classes) else None
        known = is_determined(angle.method, getattr(last_step(estimator), "link", None))
        return cls(matrix, classes, columns, angle.interval, known).plot(ax, **plot_options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        cmap: Any = "RdBu",
        annotate: bool = True,
        colorbar: bool = True,
    ) -> Self:
        """Draw the matrix, its first row on top, or many classes one by one.

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
        self.mesh_ = self.colorbar_ = self.lines_ = None
        self.texts_ = []
        if rows == columns > 12:
            return self._plot_classes(ax)
        ax = self._start(ax, (2.4 + 0.6 * columns, 1.4 + 0.6 * rows))
        self._say_whether_determined(ax)
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
        if annotate:
            self.texts_ = self._write_cosines(ax)
        if colorbar:
            self.colorbar_ = ax.figure.colorbar(self.mesh_, ax=ax, label="cosine", shrink=0.85)
        return self

    def _plot_classes(self, ax: Axes | None) -> Self:
        """Every class's own cosine with its interval, from the smallest down."""
        shown, left_out = self._lines()
        ax = self._start(ax, (5.4, 1.2 + 0.24 * len(shown)))
        color, marker, _ = STYLES[0]
        look: dict[str, Any] = {"color": color, "marker": marker, "ms": 5, "ls": "", "capsize": 2}
        cosines = np.array([cosine for _, cosine, _ in shown])
        ends = np.array([ends for _, _, ends in shown])
        reach = np.maximum(np.abs(ends.T - cosines), 0.0)
        places = np.arange(len(shown))
        self.lines_ = ax.errorbar(cosines, places, xerr=reach, **look)
        ax.set_yticks(places)
        ax.set_yticklabels([name for name, _, _ in shown], parse_math=False)
        ax.set(xlim=(min(0.0, float(np.nanmin(ends))) - 0.02, 1.02), ylim=(len(shown) - 0.5, -0.5))
        ax.set_xlabel("Cosine between a class's fitted and true weights")
        ax.grid(axis="y", color="0.5", alpha=0.25, lw=0.8)
        self._say_whether_determined(ax)
        if left_out:
            middle = len(shown) // 2 - 0.5
            ax.axhline(middle, color=FAINT, lw=1, ls=(0, (2, 2)))
            beside = ax.get_yaxis_transform()
            ax.text(1.01, middle, f"{left_out} more", transform=beside, va="center", size="small")
        return self

    def _say_whether_determined(self, ax: Axes) -> None:
        if not self.determined:
            ax.set_title("posterior means; labels leave the angles open", fontsize="small")

    def _lines(self) -> tuple[list[tuple[str, float, Any]], int]:
        """(name, cosine, ends of its interval) of each line, and how many are left out."""
        cosines = np.diagonal(self.matrix)
        ends = np.stack([cosines, cosines], axis=1)
        if self.interval is not None:
            ends = np.stack([np.diagonal(self.interval[..., end]) for end in (0, 1)], axis=1)
        groups: dict[Any, list[int]] = {}
        for k, values in enumerate(np.round(np.column_stack([cosines, ends]), 9).tolist()):
            groups.setdefault(tuple(values), []).append(k)
        names = _names(self.row_names, len(cosines))
        lines = [
            (_group_name([names[k] for k in group], len(names)), cosines[group[0]], ends[group[0]])
            for group in groups.values()
        ]
        lines.sort(key=lambda line: line[1])
        if len(lines) <= 30:
            return lines, 0
        return lines[:15] + lines[-15:], len(lines) - 30

    def _write_cosines(self, ax: Axes) -> list[Any]:
        texts = []
        for (row, column), cosine in np.ndenumerate(self.matrix):
            known = bool(np.isfinite(cosine))
            look: dict[str, Any] = {"ha": "center", "va": "center"}
            look["color"] = _readable_on(self.mesh_.to_rgba(cosine) if known else (0.74,) * 3)
            written = _written(cosine) if known else "–"
            texts.append(ax.text(column + 0.5, row + 0.5, written, **look))
        return texts


def _names(names: Sequence[Any] | None, count: int) -> list[str]:
    return [str(name) for name in (range(count) if names is None else names)]


def _group_name(names: list[str], total: int) -> str:
    """What a line of classes with one cosine is called."""
    if len(names) == 1:
        return names[0]
    return (
        f"all {total} classes" if len(names) == total else f"{names[0]} and {len(names) - 1} more"
    )


def _readable_on(rgba: Any) -> str:
    """Dark or light text, whichever contrasts more with this color."""
    channels = np.asarray(rgba[:3], dtype=np.float64)
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    # Contrast with white is 1.05/(L + 0.05), with black (L + 0.05)/0.05; they are equal at 0.179.
    return "#0d0d0d" if luminance > 0.179 else "#fefefe"
