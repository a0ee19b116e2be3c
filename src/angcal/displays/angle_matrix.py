"""A matrix of cosines as an annotated picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.displays.canvas import fitted_part, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Rounding may put a computed cosine a little outside [-1, 1].
SLACK = 1e-6
DARK_TEXT, LIGHT_TEXT = "#0d0d0d", "#fefefe"
MISSING = "#bdbdbd"


@dataclass
class AngleMatrixDisplay:
    """cos θ_kj between true weight vector k and fitted weight vector j, for all pairs.

    Parameters
    ----------
    matrix : (K, J) array
        Cosines, in [−1, 1]; NaN where there is none.
    row_names, column_names : sequences or None
        What rows and columns are called; their numbers if None.

    Attributes
    ----------
    ax_, figure_, mesh_, texts_, colorbar_
        The artists of the last `plot`; `texts_` is empty and `colorbar_` None where not drawn.

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
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    mesh_: Any = field(default=None, init=False, repr=False)
    texts_: Any = field(default=None, init=False, repr=False)
    colorbar_: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what is no matrix of cosines, or names that do not fit it."""
        self.matrix = np.asarray(self.matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or not self.matrix.size:
            raise ValueError(
                f"matrix has shape {self.matrix.shape} but must have rows and columns of cosines."
            )
        outside = self.matrix[np.abs(self.matrix) > 1.0 + SLACK]
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
        """Draw a plain matrix; `plot_options` go to `plot`."""
        display = cls(np.asarray(matrix, dtype=np.float64), row_names, column_names)
        return display.plot(ax, **plot_options)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None, **plot_options: Any) -> Self:
        """Draw ``angle_`` of a classifier that was fitted on three or more classes."""
        angle = fitted_part(estimator, "angle_", cls.__name__)
        matrix = np.asarray(angle.cosine, dtype=np.float64)
        if matrix.ndim != 2:
            raise TypeError(
                "The angle of two classes is one number; draw it with AngleDisplay.from_estimator."
            )
        classes = list(fitted_part(estimator, "classes_", cls.__name__))
        heads = classes if matrix.shape[1] == len(classes) else None
        return cls.from_matrix(matrix, classes, heads, ax=ax, **plot_options)

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
        ax
            Axes to draw on; a new figure if None.
        cmap
            A diverging colour map, or its name; its middle is at a cosine of 0.
        annotate
            Write every cosine into its cell.
        colorbar
            Draw the scale of colours beside the axes.
        """
        rows, columns = self.matrix.shape
        if ax is None:
            ax = own_axes("AngleMatrixDisplay", (2.4 + 0.6 * columns, 1.4 + 0.6 * rows))
        self.ax_, self.figure_ = ax, ax.figure
        edges = np.arange(columns + 1), np.arange(rows + 1)
        ax.set_facecolor(MISSING)
        self.mesh_ = ax.pcolormesh(
            *edges, np.ma.masked_invalid(self.matrix), cmap=cmap, vmin=-1.0, vmax=1.0
        )
        ax.set(xlim=(0, columns), ylim=(rows, 0), xlabel="Fitted weights", ylabel="True weights")
        ax.set_aspect("equal", adjustable="box")
        ax.set_xticks(edges[0][:-1] + 0.5)
        ax.set_yticks(edges[1][:-1] + 0.5)
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
            written = f"{round(cosine, 2) + 0.0:.2f}".replace("-", "−") if known else "–"
            color = _readable_on(self.mesh_.to_rgba(cosine)) if known else DARK_TEXT
            texts.append(
                ax.text(column + 0.5, row + 0.5, written, ha="center", va="center", color=color)
            )
        return texts


def _names(names: Sequence[Any] | None, count: int) -> list[str]:
    return [str(name) for name in (range(count) if names is None else names)]


def _readable_on(rgba: Any) -> str:
    """Dark or light text, whichever contrasts more with this colour."""
    channels = np.asarray(rgba[:3], dtype=np.float64)
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    # Contrast with white is 1.05/(L + 0.05), with black (L + 0.05)/0.05; they are equal at 0.179.
    return DARK_TEXT if luminance > 0.179 else LIGHT_TEXT
