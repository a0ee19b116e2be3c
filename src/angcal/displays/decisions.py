"""Decision curves: net benefit against the threshold, beside treating all and none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from angcal.displays.style import (
    FAINT,
    Display,
    add_curve,
    curves_on,
    probabilities_of,
    shade,
)
from angcal.metrics import DecisionCurve, decision_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class DecisionCurveDisplay(Display):
    """Net benefit NB(t) = P(y = 1, p ≥ t) − t/(1 − t)·P(y = 0, p ≥ t) against the threshold t.

    Gray lines are those who treat all and who treat none. Build one with `from_predictions` or
    `from_estimator`.

    Parameters
    ----------
    curve : DecisionCurve
        What to draw.
    name : str, optional
        Legend entry.

    Attributes
    ----------
    ax_, figure_, line_, band_
        The artists of the last `plot`; `band_` is None where not drawn.

    See Also
    --------
    angcal.metrics.decision_curve : The numbers.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = DecisionCurveDisplay.from_predictions(
    ...     [0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9], thresholds=[0.2, 0.5], ax=Figure().subplots()
    ... )
    >>> display.line_.get_ydata()
    array([0.4375, 0.    ])
    """

    curve: DecisionCurve
    name: str | None = None
    line_: Any = field(default=None, init=False, repr=False)
    band_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the `decision_curve` of labels and their predicted probabilities.

        Parameters
        ----------
        y_true, y_prob : array-like of shape (n,)
            Labels 0/1 and predicted P(y = 1).
        thresholds, sample_weight : array-like, optional
            As in `decision_curve`.
        name : str, optional
            Legend entry.
        ax : Axes, optional
            Axes to draw on, possibly with other curves; a new figure if None.
        **plot_options : dict
            Passed to `plot`.

        Returns
        -------
        DecisionCurveDisplay
            The display, drawn.
        """
        curve = decision_curve(y_true, y_prob, thresholds=thresholds, sample_weight=sample_weight)
        return cls(curve, name).plot(ax, **plot_options)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        name: str | None = None,
        **options: Any,
    ) -> Self:
        """Draw the curve of a fitted classifier's ``predict_proba`` on (X, y).

        Parameters
        ----------
        estimator : object
            A fitted classifier of two classes; or of more, with `pos_label`.
        X, y : array-like
            Rows and labels.
        pos_label : label, optional
            The class that is acted on; the second of two by default.
        name : str, optional
            Legend entry; the estimator's class by default.
        **options : dict
            Passed to `from_predictions`.

        Returns
        -------
        DecisionCurveDisplay
            The display, drawn.
        """
        P, classes = probabilities_of(estimator, X), np.asarray(estimator.classes_)
        if pos_label is None and len(classes) > 2:
            raise ValueError(
                f"{type(estimator).__name__} has {len(classes)} classes; name the one that is "
                "acted on: pos_label."
            )
        acted = classes[1] if pos_label is None else pos_label
        if acted not in classes.tolist():
            raise ValueError(f"pos_label={pos_label!r} is none of the classes {classes.tolist()}.")
        column = classes.tolist().index(acted)
        label = type(estimator).__name__ if name is None else name
        positive = (np.asarray(y) == acted).astype(np.float64)
        return cls.from_predictions(positive, P[:, column], name=label, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        band: bool = True,
        **line_options: Any,
    ) -> Self:
        """Draw the curve, and the two gray lines unless an earlier curve drew them.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; a new figure if None.
        name : str, optional
            Legend entry, if other than the display's own.
        band : bool, default=True
            Shade two standard errors on both sides.
        **line_options : dict
            Passed to ``ax.plot``, over the color and dash that successive curves take.

        Returns
        -------
        DecisionCurveDisplay
            The display itself.
        """
        ax, curve = self._start(ax, (5.5, 4.0)), self.curve
        gid = "angcal-decision-curve"
        earlier = curves_on(ax, gid)
        if not earlier:
            self._draw_frame(ax)
        label = self.name if name is None else name
        self.line_ = add_curve(ax, gid, curve.thresholds, curve.net_benefit, label, line_options)
        self.band_ = None
        if band:
            reach = 2.0 * curve.standard_error
            ends = curve.net_benefit - reach, curve.net_benefit + reach
            self.band_ = shade(ax, curve.thresholds, *ends, self.line_)
        # Treating all goes down without end; what is below a little loss is of no interest.
        top = max(ax.get_ylim()[1] if earlier else 0.0, 1.1 * float(curve.net_benefit.max()), 1e-3)
        top = max(top, 1.1 * float(curve.treat_all.max()))
        ax.set_ylim(-0.15 * top, top)
        ax.legend(loc="best", frameon=False)
        return self

    def _draw_frame(self, ax: Axes) -> None:
        thresholds, everybody = self.curve.thresholds, self.curve.treat_all
        ax.plot(thresholds, everybody, color=FAINT, lw=1, ls="--", label="treat all", zorder=1)
        ax.axhline(0.0, color=FAINT, lw=1, label="treat none", zorder=1)
        ax.set(xlim=(0, 1), xlabel="Threshold probability", ylabel="Net benefit")
