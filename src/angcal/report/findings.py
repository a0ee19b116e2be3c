"""All that a report says, computed once: the fit, its verdict and diagnostics, the comparison."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from angcal.notices import OptimalityWarning, PoolWarning, RepeatedRowsWarning
from angcal.report.comparison import PENALTIES, Comparison, compare, fits_of, repeats_for
from angcal.report.figures import (
    Diagnostics,
    LeaveOneOut,
    PValues,
    calibration_tests,
    diagnose,
    leave_one_out_figures,
)
from angcal.report.performance import (
    Learning,
    Performance,
    learning_curves,
    performance,
    performance_numbers,
)
from angcal.report.tables import (
    ClassTable,
    ColumnTable,
    RowTable,
    Weight,
    class_table,
    column_table,
    largest_weights,
    row_table,
    weights_of,
)
from angcal.report.verdict import MOST_CLASSES_NAMED, Verdict, sentences, shortened, verdict_of
from angcal.tables import FittedTable, TableError, aligned, fit_table
from angcal.tables.columns import plan_columns
from angcal.tables.errors import first_few

Progress = Callable[[int, int, str], None]
"""(steps done, steps in all, what comes next) -> None."""


@dataclass(frozen=True)
class Origin:
    """Where the rows come from and what the page was asked for."""

    file: str = ""  # Name of the table and day of the report; empty where unknown
    date: str = ""
    positive: str | None = None  # The class that is asked about; the second of two by default
    threshold: float = 0.5  # Probability from which on one would act
    row_names: Sequence[str] | None = None  # What identifies the rows


@dataclass(frozen=True, eq=False)
class FitFindings:
    """What the calibrated fit to all rows adds; every figure is leave-one-out."""

    model: Any  # On the prepared rows
    figures: LeaveOneOut
    verdict: Verdict
    class_table: ClassTable  # Figures of every class
    diagnostics: Diagnostics | None  # For two classes, whose curve rests on the shape of the scores
    performance: Performance
    rows: RowTable
    weights: tuple[Weight, ...]  # The largest
    learning: Learning
    tests: tuple[PValues, ...]  # Empty where rows come in groups


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that a report says."""

    title: str
    target: str
    n_rows: int  # Of the table, without the target
    n_columns: int
    classes: tuple[str, ...]  # Names of the classes and how many rows each has
    counts: tuple[int, ...]
    codes: Any  # (n,) int: Class of every row
    dropped: tuple[tuple[str, str], ...]
    complaints: tuple[str, ...]  # Warnings that the fit raised
    refusal: str  # Why there is no calibrated fit; empty where there is one
    fit: FitFindings | None
    comparison: Comparison | None
    why_no_comparison: str
    seed: int
    origin: Origin
    positive: int  # Place of the class that is asked about, of two
    columns: ColumnTable  # What was done to the columns

    @property
    def asked(self) -> str:
        """The class that is asked about, of two."""
        return self.classes[self.positive]


def examine(
    features: Any,
    y: Any,
    *,
    pool: Any = None,
    title: str | None = None,
    seed: int = 0,
    target: str = "y",
    repeats: int | None = None,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
    groups: Any = None,
    origin: Origin | None = None,
) -> Findings:
    """Fit, diagnose and compare.

    `y` holds the classes, called `target`; `pool` rows without labels, with the columns of
    `features`; `groups` which rows belong together, such as those of one patient; `notes` sentences
    about the table that go with the warnings. The `seed` is that of folds and bootstrap, and the
    same one gives the same page; larger tables have fewer `repeats` of the cross-validation by
    default. Called is ``progress(done, total, what)``.
    """
    origin = origin or Origin()
    labels, classes, codes = _encoded(y, len(features), target)
    n_classes = len(classes)
    if repeats is not None and repeats < 1:
        raise ValueError(f"repeats={repeats!r} must be at least 1.")
    tell = progress or (lambda done, total, what: None)
    tell(0, 1, "fitting")
    fitted, complaints, refusal = _fit(features, labels, pool, groups, n_classes)
    model = None if fitted is None else fitted.classifier
    plan = plan_columns(features)
    given = {"model": model, "pool": pool, "seed": seed, "groups": groups}
    given["repeats"] = repeats or repeats_for(features.shape[0] * features.shape[1], n_classes)
    given["progress"] = lambda done, total: tell(done, total, "cross-validating")
    # Which columns are used is decided once: in a fold an identifier may look like a number.
    comparison = compare(features[plan.used], labels, codes, **given)
    names = tuple(str(name) for name in classes)
    found = Findings(
        title="Calibration report" if title is None else title,
        target=str(target),
        n_rows=len(labels),
        n_columns=len(plan.used) + len(plan.dropped),
        classes=names,
        counts=tuple(int(count) for count in np.bincount(codes)),
        codes=codes,
        dropped=tuple((str(name), str(why)) for name, why in plan.dropped),
        complaints=(*notes, *complaints),
        refusal=refusal,
        fit=None,
        comparison=None if isinstance(comparison, str) else comparison,
        why_no_comparison=comparison if isinstance(comparison, str) else "",
        seed=seed,
        origin=origin,
        positive=names.index(origin.positive) if origin.positive in names else 1,
        columns=column_table(features, None if fitted is None else fitted.model.steps[0][1]),
    )
    return found if fitted is None else replace(found, fit=_of_fit(found, fitted, features, pool))


def _of_fit(found: Findings, fitted: FittedTable, features: Any, pool: Any) -> FitFindings:
    """What a fitted model adds to the findings about its table."""
    model, prepare, names = fitted.classifier, fitted.model.steps[0][1], found.classes
    figures = leave_one_out_figures(model, found.codes)
    used = list(prepare.feature_names_in_)
    prepared = [
        None if rows is None else prepare.transform(aligned(rows, used, "the pool"))
        for rows in (features, pool)
    ]
    folds = () if found.comparison is None else found.comparison.weights
    return FitFindings(
        model=model,
        figures=figures,
        verdict=verdict_of(fitted, figures, pool_rows=0 if pool is None else len(pool)),
        class_table=class_table(figures, names),
        diagnostics=diagnose(model.observables_) if len(names) == 2 else None,
        performance=performance(figures, names, found.positive, found.origin.threshold),
        rows=row_table(model, figures, found.positive, found.origin.row_names),
        weights=tuple(largest_weights(weights_of(prepare, model), folds, names)),
        learning=learning_curves(prepared[0], figures, names, found.positive, prepared[1]),
        tests=calibration_tests(figures, found.seed),
    )


def _encoded(y: Any, n_rows: int, target: str) -> tuple[Any, Any, Any]:
    """(labels as an array, classes in sorted order, labels as 0, 1, …)."""
    labels = column_or_1d(np.asarray(y))
    if len(labels) != n_rows:
        raise ValueError(f"features has {n_rows} rows and y {len(labels)}; give one each.")
    missing = [label for label in labels if label is None or label != label]
    if missing:
        raise ValueError(f"{target} is missing in {len(missing)} rows; drop them first.")
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"{target} mixes labels that cannot be sorted, such as numbers and text; recode it."
        ) from error
    if len(classes) < 2:
        raise ValueError(f"{target} has one class only; a report needs rows of two classes.")
    return labels, classes, codes


def _fit(
    features: Any, labels: Any, pool: Any, groups: Any, n_classes: int
) -> tuple[FittedTable | None, tuple[str, ...], str]:
    """(fit on all rows, its warnings, why there is none); two classes must have one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted = fit_table(features, labels, pool=pool, Cs=PENALTIES, groups=groups)
            refusal = ""
        except ValueError as error:
            if n_classes == 2 or isinstance(error, TableError):
                raise
            fitted, refusal = None, str(error)
    return fitted, tuple(plain_words(caught)), refusal


def plain_words(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """Each warning once, in words for someone who has a file and not a program."""
    ways_out = {
        PoolWarning: "Check that the pool has the same columns in the same units.",
        RepeatedRowsWarning: "Drop the copies from the table.",
        OptimalityWarning: "The figures are less certain than they look.",
    }
    messages = []
    for entry in caught:
        if issubclass(entry.category, DeprecationWarning | FutureWarning | ResourceWarning):
            continue  # for programmers
        text = " ".join(str(entry.message).split())
        for category, way_out in ways_out.items():
            if issubclass(entry.category, category):
                # What follows the first sentence speaks of the library.
                text = f"{text.split('. ')[0].rstrip('.')}. {way_out}"
        messages.append(text)
    return list(dict.fromkeys(messages))


def verdict(found: Findings) -> list[str]:
    """The verdict in a few sentences, the headline first."""
    if found.fit is not None:
        return sentences(found.fit.verdict, found.comparison)
    pairs = zip(found.classes, found.counts, strict=True)
    named = first_few([f"{shortened(name)} ({count})" for name, count in pairs], MOST_CLASSES_NAMED)
    return [
        "angcal could not calibrate this table.",
        f"{found.n_rows} rows, {found.n_columns} columns; classes {named}.",
        f"The reason: {found.refusal}",
    ]


def summary(found: Findings) -> dict[str, Any]:
    """The same as plain numbers, for machines: those of ``angcal fit --json``, and more."""
    numbers: dict[str, Any] = {
        "title": found.title,
        "target": found.target,
        "rows": found.n_rows,
        "columns": found.n_columns,
        "classes": dict(zip(found.classes, found.counts, strict=True)),
        "dropped": [{"column": name, "reason": reason} for name, reason in found.dropped],
        "warnings": list(found.complaints),
        "refusal": found.refusal or None,
        "seed": found.seed,
        "verdict": verdict(found),
    }
    if found.fit is not None:
        numbers |= _fit_numbers(found.fit)
    if found.comparison is not None:
        numbers |= _compared_numbers(found.comparison, len(found.classes))
    return numbers


def _fit_numbers(fit: FitFindings) -> dict[str, Any]:
    """Verdict, performance, classes where there are more than two, and the shape of the scores."""
    numbers = fit.verdict.as_json() | performance_numbers(fit.performance)
    numbers["tests"] = [asdict(test) for test in fit.tests]
    if not fit.figures.two:
        names = ("rows", "found", "log_loss", "ece")
        numbers["by_class"] = {
            one.name: {name: getattr(one, name) for name in names}
            for one in fit.class_table.classes
        }
    if fit.diagnostics is not None:
        shape = ("skewness", "excess_kurtosis", "unevenness")
        numbers |= {name: getattr(fit.diagnostics, name) for name in shape}
    return numbers


def _compared_numbers(compared: Comparison, n_classes: int) -> dict[str, Any]:
    """Out-of-fold figures of all methods, under the names that leave-one-out figures have."""
    keys = {metric: metric.lower().replace("-", "_").split()[0] for metric in compared.values}
    rows = [
        {"method": method.name, "fits": fits_of(method, n_classes), "labels": method.labels}
        | {keys[metric]: float(values[i]) for metric, values in compared.values.items()}
        | {f"{keys[metric]}_error": float(error[i]) for metric, error in compared.errors.items()}
        for i, method in enumerate(compared.methods)
    ]
    return {"comparison": rows, "folds": compared.folds, "repeats": compared.repeats}
