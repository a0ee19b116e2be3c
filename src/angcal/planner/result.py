"""The answer of a planner: what to expect of more labels, and how many a target needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import entr, ndtri

from angcal._typing import Floats
from angcal.theory.labels import only_target

# -- Sample sizes for ordinary logistic regression, as pmsampsize has them (Riley et al. 2019) --
#
# For d parameters, an expected R² of Cox and Snell and a prevalence φ,
#
#     shrinkage S:        n = d/((S − 1)·log(1 − R²/S))
#     optimism δ in R²:   the same with S = R²/(R² + δ·max R²), max R² = 1 − (φ^φ(1−φ)^(1−φ))²
#     overall risk ± m:   n = (1.96/m)²·φ(1−φ)


def criteria_of_riley(
    d: float,
    r2: float,
    prevalence: float,
    *,
    shrinkage: float = 0.9,
    optimism: float = 0.05,
    margin: float = 0.05,
) -> dict[str, int]:
    """Labels that each of the three criteria asks for, for a fit without a penalty.

    Parameters
    ----------
    d : float
        Parameters of the model.
    r2 : float
        R² of Cox and Snell that is expected of it.
    prevalence : float
        Share of class 1.
    shrinkage, optimism, margin : float
        S, δ and m; the defaults are those of pmsampsize.

    Returns
    -------
    dict of str to int
        ``shrinkage``, ``optimism`` and ``overall risk``; the largest is the one to take.

    See Also
    --------
    plan_from_assumptions : Puts them beside the labels that a calibrated ridge fit needs.

    Examples
    --------
    >>> criteria_of_riley(24, 0.288, 0.174)
    {'shrinkage': 623, 'optimism': 662, 'overall risk': 221}
    """
    if not 0.0 < prevalence < 1.0:
        raise ValueError(f"prevalence={prevalence!r} must lie between 0 and 1.")
    largest = -np.expm1(-2.0 * float(entr(prevalence) + entr(1.0 - prevalence)))
    if not 0.0 < r2 < largest:
        raise ValueError(f"r2={r2!r} must lie between 0 and {largest:.4g} at this prevalence.")

    def labels(S: float) -> float:
        # A fit that good needs no shrinkage to speak of: one label for each parameter.
        return d / ((S - 1.0) * np.log1p(-r2 / S)) if r2 < S else d

    found = {
        "shrinkage": labels(shrinkage),
        "optimism": labels(r2 / (r2 + optimism * largest)),
        "overall risk": (1.96 / margin) ** 2 * prevalence * (1.0 - prevalence),
    }
    return {name: int(np.ceil(each)) for name, each in found.items()}


MEASURES = ("log_loss", "accuracy", "ece", "cosine", "C")


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What calibrated ridge logistic regression at its best penalty is expected to reach.

    Attributes
    ----------
    n : (k,) array
        Labels.
    log_loss, accuracy : (k,) arrays
        Of calibrated probabilities on new rows.
    ece : (k,) array
        Calibration error of the model's own probabilities, before they are calibrated.
    cosine : (k,) array
        Of the angle between fitted and best weights.
    C : (k,) array
        The best inverse strength, as in scikit-learn.
    intervals : dict of str to (k, 2) array
        80 % intervals of each of the five.
    ceiling : dict of str to (float, float, float)
        Log-loss and accuracy of a linear model with unlimited labels, with an 80 % interval.
    pilot_n : int
        Labels of the pilot; 0 where there was none.
    pilot : dict of str to float
        Its own leave-one-out ``log_loss`` and ``accuracy``; empty where there was none.
    remarks : tuple of str
        What the pilot cannot say.
    criteria : dict of str to int
        Labels that pmsampsize's criteria ask for, of a plan from assumptions.

    See Also
    --------
    angcal.AngularLogisticRegressionCV.plan : Makes it.

    Examples
    --------
    >>> from angcal.planner import plan_from_assumptions
    >>> plan = plan_from_assumptions(400, ceiling=0.9, n=[200, 800])
    >>> plan.accuracy.round(2)
    array([0.66, 0.78])
    """

    n: Floats
    log_loss: Floats
    accuracy: Floats
    ece: Floats
    cosine: Floats
    C: Floats
    intervals: dict[str, Floats]
    ceiling: dict[str, tuple[float, float, float]]
    pilot_n: int
    pilot: dict[str, float]
    remarks: tuple[str, ...]
    curve: Any
    criteria: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [self.sentence(), self.table(), *(f"Note: {each}" for each in self.remarks)]
        if self.criteria:
            parts.insert(2, self.criteria_sentence())
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def labels_for(
        self,
        *,
        log_loss: float | None = None,
        accuracy: float | None = None,
        cosine: float | None = None,
    ) -> float:
        """Labels at which the expected curve meets a target; infinity beyond 64 pilots.

        Parameters
        ----------
        log_loss, accuracy, cosine : float
            The target, one of the three.

        Returns
        -------
        float
            Labels, at least those of the pilot.

        Raises
        ------
        ValueError
            Where the target lies beyond the interval of what unlimited labels reach.
        """
        given = {"log_loss": log_loss, "accuracy": accuracy, "cosine": cosine}
        return self.curve.labels_for(*only_target(given), self.ceiling)

    def sentence(self, n: float | None = None) -> str:
        """What a person needs to know about one number of labels.

        Parameters
        ----------
        n : float, optional
            One of ``n``; the largest by default.

        Returns
        -------
        str
            One sentence.
        """
        k = int(np.argmax(self.n)) if n is None else int(np.argmin(np.abs(self.n - n)))
        low, high = self.intervals["accuracy"][k]
        start = f"With {self.n[k]:.0f} labels"
        start += f" instead of {self.pilot_n}" if self.pilot_n else ""
        between = f" ± {0.5 * (high - low):.0%}" if high > low else ""
        about = self.ceiling["accuracy"][0]
        return (
            f"{start} expect {self.accuracy[k]:.0%}{between} accuracy; the ceiling of a linear "
            f"model here is about {about:.0%}."
        )

    def table(self) -> str:
        """A line for each number of labels, in plain text.

        Returns
        -------
        str
            Columns for labels, accuracy, log-loss, calibration error, cosine and C.
        """
        forms = {"accuracy": ".1%", "log_loss": ".3f", "ece": ".3f", "cosine": ".2f", "C": ".2g"}
        rows = [["labels", "accuracy", "log-loss", "plain ECE", "cosine", "best C"]]
        for k, n in enumerate(self.n):
            rows.append([f"{n:.0f}", *(self._cell(name, form, k) for name, form in forms.items())])
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        between = ["In brackets: 80 % intervals."] if self.pilot_n else []
        return "\n".join(between + lines)

    def _cell(self, name: str, form: str, k: int) -> str:
        low, high = self.intervals[name][k]
        between = f" ({low:{form}} to {high:{form}})" if high > low else ""
        return f"{getattr(self, name)[k]:{form}}{between}"

    def criteria_sentence(self) -> str:
        """What pmsampsize would say of a model without a penalty.

        Returns
        -------
        str
            One sentence; empty for a plan from a pilot.
        """
        if not self.criteria:
            return ""
        parts = ", ".join(f"{name} {count}" for name, count in self.criteria.items())
        return (
            "For logistic regression without a penalty the criteria of Riley et al. (pmsampsize) "
            f"ask for {max(self.criteria.values())} labels ({parts})."
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything as lists and numbers, for JSON.

        Returns
        -------
        dict
            Arrays as lists.
        """
        columns = {name: getattr(self, name).tolist() for name in ("n", *MEASURES)}
        return columns | {
            "intervals": {name: pair.tolist() for name, pair in self.intervals.items()},
            "ceiling": {name: list(values) for name, values in self.ceiling.items()},
            "pilot_n": self.pilot_n,
            "pilot": self.pilot,
            "remarks": list(self.remarks),
            "criteria": self.criteria,
            "sentence": self.sentence(),
        }


def half_of_interval(deviation: Any) -> Any:
    """Half the width of the 80 % interval of a normal law."""
    return ndtri(0.9) * deviation


@dataclass(frozen=True, eq=False)
class Curve:
    """Expected measures on a grid of n, with the deviation of each; read between by log n."""

    n: Floats  # (g,): Increasing
    means: dict[str, Floats]  # (g,) each; of C the logarithm
    deviations: dict[str, Floats]  # (g,) each
    # (forecast, measure) to (g,): what was averaged
    parts: dict[tuple[str, str], Floats] = field(default_factory=dict)

    def half(self, name: str, n: Floats) -> Floats:
        """Half the width of 80 % intervals, before they end at what is possible."""
        return half_of_interval(np.interp(np.log(n), np.log(self.n), self.deviations[name]))

    def at(self, name: str, n: Floats) -> tuple[Floats, Floats]:
        """Mean and 80 % interval, (k,) and (k, 2)."""
        mean = np.interp(np.log(n), np.log(self.n), self.means[name])
        half = self.half(name, n)
        ends = np.column_stack([mean - half, mean + half])
        if name == "C":
            return np.exp(mean), np.exp(ends)
        return mean, np.clip(ends, 0.0, None if name == "log_loss" else 1.0)

    def labels_for(
        self, name: str, target: float, ceiling: dict[str, tuple[float, float, float]]
    ) -> float:
        """Where the mean meets the target."""
        if name not in ("log_loss", "accuracy", "cosine"):
            raise ValueError(f"{name} is no target.")
        sign = -1.0 if name == "log_loss" else 1.0
        # The far end of the interval: a target that may be within reach is not refused.
        end = ceiling[name][1 if sign < 0 else 2] if name in ceiling else 1.0
        if not sign * target < sign * end:
            what = name.replace("_", "-")
            raise ValueError(
                f"{what} {target:.4g} is beyond reach: with unlimited labels a linear model here "
                f"has {what} {end:.4g} at best. Choose a target "
                f"{'above' if sign < 0 else 'below'} that, or find better features."
            )
        values = np.maximum.accumulate(sign * self.means[name])
        if sign * target <= values[0]:
            return float(self.n[0])
        if sign * target > values[-1]:
            return float("inf")
        return float(np.exp(np.interp(sign * target, values, np.log(self.n))))


def made_plan(
    curve: Curve,
    n: Floats,
    ceiling: dict[str, tuple[float, float, float]],
    pilot_n: int = 0,
    pilot: dict[str, float] | None = None,
    remarks: tuple[str, ...] = (),
    criteria: dict[str, int] | None = None,
) -> Plan:
    """The plan that reads these n off a curve."""
    read = {name: curve.at(name, n) for name in MEASURES}
    return Plan(
        n=n,
        **{name: mean for name, (mean, _) in read.items()},
        intervals={name: interval for name, (_, interval) in read.items()},
        ceiling=ceiling,
        pilot_n=pilot_n,
        pilot=pilot or {},
        remarks=remarks,
        curve=curve,
        criteria=criteria or {},
    )
