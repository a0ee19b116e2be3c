"""All that a report says, computed once: the fit, its diagnostics, the comparison."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import column_or_1d

from angcal._typing import Floats
from angcal.metrics import expected_calibration_error, log_loss
from angcal.path.confidence import calibration_slope
from angcal.report.comparison import PENALTIES, Comparison, compare, repeats_for
from angcal.report.diagnostics import Diagnostics, diagnose
from angcal.tables import TableError, dropped_columns, fit_table

DEFAULT_TITLE = "Calibration report"
FOR_PROGRAMMERS = (DeprecationWarning, FutureWarning, ResourceWarning)

Progress = Callable[[int, int, str], None]
"""(steps done, steps in all, what comes next) -> None."""


@dataclass(frozen=True, eq=False)
class TwoClasses:
    """What one fit on all rows shows where there are two classes.

    Attributes
    ----------
    model : AngularLogisticRegressionCV
        Fitted on the prepared rows.
    labels : (n,) array
        1 for the second class.
    scores : (n,) array
        Leave-one-out scores.
    calibrated, plain : (n,) arrays
        Leave-one-out probabilities: F of the scores, and the raw sigmoid of them.
    slope, slope_error : float
        a of the likeliest P(y = 1) = σ(a·score + b), and its standard error: 1 where the plain
        model is right about its own certainty, below 1 where it is overconfident.
    diagnostics : Diagnostics
    """

    model: Any
    labels: Floats
    scores: Floats
    calibrated: Floats
    plain: Floats
    slope: float
    slope_error: float
    diagnostics: Diagnostics

    def ece(self, kind: str) -> float:
        """Leave-one-out ECE of "calibrated" or "plain" probabilities."""
        return expected_calibration_error(self.labels, getattr(self, kind))

    def log_loss(self, kind: str) -> float:
        """Leave-one-out log-loss of "calibrated" or "plain" probabilities."""
        return log_loss(self.labels, getattr(self, kind))


@dataclass(frozen=True, eq=False)
class SeveralAngles:
    """Cosines between the true and the fitted weights of several classes.

    Attributes
    ----------
    cosine : (K, K) array
        Rows are true weights, columns fitted ones.
    method, reason : str
    """

    cosine: Floats
    method: str
    reason: str


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that a report says.

    Attributes
    ----------
    title, target : str
    n_rows, n_columns, n_features : int
        Rows, columns of the table, and features after encoding; 0 where nothing was fitted.
    n_pool : int
        Rows of the pool, 0 without one.
    classes, counts : tuples
        Names of the classes and how many rows each has.
    codes : (n,) int array
        Class of every row.
    dropped : tuple of (column, reason)
    complaints : tuple of str
        Warnings that the fit raised.
    refusal : str
        Why there is no calibrated fit; empty where there is one.
    two : TwoClasses or None
    angles : SeveralAngles or None
        For three or more classes.
    comparison : Comparison or None
    why_no_comparison : str
    seed : int
    """

    title: str
    target: str
    n_rows: int
    n_columns: int
    n_features: int
    n_pool: int
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    codes: Any
    dropped: tuple[tuple[str, str], ...]
    complaints: tuple[str, ...]
    refusal: str
    two: TwoClasses | None
    angles: SeveralAngles | None
    comparison: Comparison | None
    why_no_comparison: str
    seed: int


def examine(
    features: Any,
    y: Any,
    *,
    pool: Any = None,
    title: str = DEFAULT_TITLE,
    seed: int = 0,
    target: str = "y",
    repeats: int | None = None,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Findings:
    """Fit, diagnose and compare; the parameters are those of `make_report`.

    `notes` are sentences about the table itself that go with the warnings.
    """
    labels = column_or_1d(np.asarray(y))
    if len(labels) != len(features):
        raise ValueError(f"features has {len(features)} rows and y {len(labels)}; give one each.")
    encoder = _encoder(labels, target)
    codes, n_classes = encoder.transform(labels), len(encoder.classes_)
    if n_classes < 2:
        raise ValueError(f"{target} has one class only; a report needs rows of two classes.")
    if repeats is not None and repeats < 1:
        raise ValueError(f"repeats={repeats!r} must be at least 1.")
    steps = _Steps(progress)
    steps.tell(0, 1, "fitting")
    fitted, complaints, refusal = _fit(features, labels, pool, seed, n_classes)
    comparison = compare(
        features,
        labels,
        codes,
        with_angcal=fitted is not None,
        pool=pool,
        seed=seed,
        repeats=repeats or repeats_for(features.shape[0] * features.shape[1], n_classes),
        progress=lambda done, total: steps.tell(done, total, "cross-validating"),
    )
    two = None
    if fitted is not None and n_classes == 2:
        two = _two_classes(fitted.model.steps[-1][1], codes)
    return Findings(
        title=title,
        target=str(target),
        n_rows=len(labels),
        n_columns=features.shape[1],
        n_features=0 if fitted is None else int(fitted.d),
        n_pool=0 if pool is None else len(pool),
        classes=tuple(str(name) for name in encoder.classes_),
        counts=tuple(int(count) for count in np.bincount(codes)),
        codes=codes,
        dropped=tuple((str(name), str(why)) for name, why in dropped_columns(features)),
        complaints=(*notes, *complaints),
        refusal=refusal,
        two=two,
        angles=None if fitted is None or two is not None else _several_angles(fitted),
        comparison=None if isinstance(comparison, str) else comparison,
        why_no_comparison=comparison if isinstance(comparison, str) else "",
        seed=seed,
    )


def _encoder(labels: Any, target: str) -> LabelEncoder:
    """Knows the classes, in sorted order."""
    missing = [label for label in labels if label is None or label != label]
    if missing:
        raise ValueError(f"{target} is missing in {len(missing)} rows; drop them first.")
    try:
        return LabelEncoder().fit(labels)
    except TypeError as error:
        raise ValueError(
            f"{target} mixes labels that cannot be sorted, such as numbers and text; recode it."
        ) from error


@dataclass(frozen=True)
class _Steps:
    progress: Progress | None

    def tell(self, done: int, total: int, what: str) -> None:
        if self.progress is not None:
            self.progress(done, total, what)


def _fit(
    features: Any, labels: Any, pool: Any, seed: int, n_classes: int
) -> tuple[Any, tuple[str, ...], str]:
    """(fit on all rows, its warnings, why there is none); two classes must have one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted, refusal = fit_table(features, labels, pool=pool, Cs=PENALTIES, seed=seed), ""
        except ValueError as error:
            if n_classes == 2 or isinstance(error, TableError):
                raise
            fitted, refusal = None, str(error)
    complaints = dict.fromkeys(
        " ".join(str(entry.message).split())
        for entry in caught
        if not issubclass(entry.category, FOR_PROGRAMMERS)
    )
    return fitted, tuple(complaints), refusal


def _several_angles(fitted: Any) -> SeveralAngles | None:
    """The angles, where there is one for every pair of classes."""
    angle: Any = getattr(fitted.model.steps[-1][1], "angle_", None)
    cosine = np.asarray(getattr(angle, "cosine", np.nan), dtype=np.float64)
    if cosine.shape != (len(fitted.classes), len(fitted.classes)):
        return None
    return SeveralAngles(cosine, str(angle.method), str(angle.reason))


def _two_classes(model: Any, codes: Any) -> TwoClasses:
    labels, scores = codes.astype(np.float64), model.observables_.calibration_scores
    slope, error = calibration_slope(scores, labels)
    return TwoClasses(
        model=model,
        labels=labels,
        scores=scores,
        calibrated=np.asarray(model.curve_.predict(scores)),
        plain=expit(scores),
        slope=slope,
        slope_error=error,
        diagnostics=diagnose(model.observables_),
    )
