"""What the page shows in tables: classes, rows, columns of the data, and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal._typing import Floats
from angcal.displays.reliability import outside_band, worst_first
from angcal.intervals import interval
from angcal.metrics import ReliabilityCurve, classwise_ece, classwise_reliability
from angcal.metrics.scores import row_losses
from angcal.report.figures import LeaveOneOut
from angcal.tables.columns import plan_columns
from angcal.tables.errors import counted

# -- Class by class: how often a class is found, what its rows lose, and whose probabilities err --
#
# All figures are leave-one-out. Of many classes the worst come first and the rest is counted.

MOST_CLASSES, MOST_PICTURES = 20, 6


@dataclass(frozen=True)
class ClassFigures:
    """One class, on rows that the model has not seen."""

    name: str
    rows: int  # Of the class
    found: float  # Share of these for which the calibrated model holds the class the likeliest
    # Of the "plain" and of the "calibrated" model: mean of −log P(label) over these rows, and the
    # expected calibration error of the class's probabilities over all rows
    log_loss: dict[str, float]
    ece: dict[str, float]
    curve: ReliabilityCurve  # Of its calibrated probabilities

    @property
    def outside(self) -> float:
        """By how much its probabilities are off beyond chance, mean over rows."""
        return outside_band(self.curve)


@dataclass(frozen=True, eq=False)
class ClassTable:
    """All classes, and which of them to show."""

    classes: tuple[ClassFigures, ...]  # In the order of the model
    # Their places, those first whose probabilities are farthest outside their bands
    order: tuple[int, ...]

    def first(self, count: int) -> list[ClassFigures]:
        """All classes in their order; where there are more than `count`, the worst first."""
        return list(self.classes) if len(self.classes) <= count else self.worst(count)

    def worst(self, count: int) -> list[ClassFigures]:
        """So many classes, those first that err most."""
        return [self.classes[k] for k in self.order[:count]]

    @property
    def left_out(self) -> str:
        """What the table does not show, in a sentence; empty where it shows all."""
        rest = [self.classes[k] for k in self.order[MOST_CLASSES:]]
        if not rest:
            return ""
        return (
            f"Of {len(self.classes)} classes these are the {MOST_CLASSES} whose calibrated "
            f"probabilities err most. The other {len(rest)} have {_span([c.rows for c in rest])} "
            f"rows each, and a calibration error of at most "
            f"{max(c.ece['calibrated'] for c in rest):.3f}."
        )


def bins_for(n_rows: int, most: int) -> int:
    """Bins with twenty rows or more each, if there are so many rows."""
    return int(np.clip(n_rows // 20, 2, most))


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def class_table(figures: LeaveOneOut, names: Sequence[str]) -> ClassTable:
    """Figures of every class; the names are in the order of the columns."""
    codes, K = figures.codes, len(names)
    counts = np.bincount(codes, minlength=K)
    each = np.maximum(counts, 1)
    likeliest = figures.calibrated.argmax(axis=1) == codes
    found = np.bincount(codes, likeliest, K) / each
    kinds = {"plain": figures.plain, "calibrated": figures.calibrated}
    losses = {kind: np.bincount(codes, row_losses(p, codes), K) / each for kind, p in kinds.items()}
    errors: dict[str, Any] = {
        kind: classwise_ece(codes, p, per_class=True) for kind, p in kinds.items()
    }
    bins = bins_for(len(codes), 5)  # a class of many has few rows
    curves = classwise_reliability(codes, figures.calibrated, n_bins=bins, strategy="quantile")
    classes = tuple(
        ClassFigures(
            name=str(names[k]),
            rows=int(counts[k]),
            found=float(found[k]),
            log_loss={kind: float(values[k]) for kind, values in losses.items()},
            ece={kind: float(values[k]) for kind, values in errors.items()},
            curve=curves[k],
        )
        for k in range(K)
    )
    return ClassTable(classes, tuple(worst_first(curves)))


# -- Row by row: the leave-one-out probability of each training row, with its interval, sorted --


CONFIDENCE = 0.9
# Of a longer table only both ends are printed.
MOST_ROWS = 100


@dataclass(frozen=True, eq=False)
class RowTable:
    """Rows by falling probability: of the class asked about, or of the likeliest of more."""

    names: tuple[str, ...]  # What identifies the rows, or their numbers
    labels: Any  # (n,) int: Places of the true and of the likeliest class
    predicted: Any  # (n,) int
    # (n,): Probability and the ends of its 90% interval, of all rows with the same score
    p: Floats
    low: Floats  # (n,)
    high: Floats  # (n,)

    def shown(self) -> list[int | None]:
        """Places of the rows to print; None where rows are left out."""
        n, half = len(self.p), MOST_ROWS // 2
        if n <= MOST_ROWS:
            return list(range(n))
        return [*range(half), None, *range(n - half, n)]


def row_table(
    model: Any, figures: LeaveOneOut, positive: int, names: Sequence[str] | None
) -> RowTable:
    """The training rows of a fitted classifier, each as the model without it sees it.

    Rows without names are numbered from 1.
    """
    n, rows = len(figures.codes), np.arange(len(figures.codes))
    scores = model.observables_.calibration_scores
    ends = interval([1.0], [model.interval_law_], [scores], "curve", CONFIDENCE)
    predicted = figures.calibrated.argmax(axis=1)
    if figures.two:
        p = figures.calibrated[:, positive]
        low, high = ends.T if positive == 1 else 1.0 - ends.T[::-1]
    else:
        p = figures.calibrated[rows, predicted]
        low, high = ends[rows, predicted].T
    order = np.argsort(-p, kind="stable")
    given = [str(row + 1) for row in range(n)] if names is None else list(names)
    return RowTable(
        names=tuple(given[i] for i in order),
        labels=figures.codes[order],
        predicted=predicted[order],
        p=p[order],
        # The probability of a row is also without its label's part in the curve.
        low=np.minimum(low, p)[order],
        high=np.maximum(high, p)[order],
    )


# -- What was done to which column, and how many of its cells were missing ----------------------


MOST_COLUMNS = 50


@dataclass(frozen=True)
class ColumnNote:
    """One column of the table."""

    name: str
    kind: str
    missing: int  # Cells without a value
    treatment: str  # In words


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """All columns of the features."""

    # Those that are worth a line: with missing cells, categories, or left out
    columns: tuple[ColumnNote, ...]
    plain: int  # Columns of numbers without a missing cell
    missing: int  # Over all columns that are used
    cells: int

    @property
    def sentences(self) -> list[str]:
        """What happened to all the rest."""
        sentences = [
            f"{self.missing} of {self.cells} cells ({self.missing / max(self.cells, 1):.1%}) had "
            "no value."
            if self.missing
            else "No cell was without a value."
        ]
        if self.plain:
            count = counted(self.plain, "column")
            sentences.append(f"{count} of numbers without gaps: brought to mean 0 and deviation 1.")
        return sentences


def column_table(features: Any, prepare: Any = None) -> ColumnTable:
    """What the fitted preparation of a table does; without one, no medians and levels."""
    plan = plan_columns(features)
    steps = {name: step for name, step, _ in getattr(prepare, "transformers_", ())}
    notes, plain, missing = [], 0, 0
    if plan.numbers:
        values = _number_step(steps).transform(features[list(plan.numbers)])
        empty = np.isnan(values).sum(axis=0)
        medians = steps["numbers"][1].statistics_ if "numbers" in steps else None
        missing, plain = int(empty.sum()), int(np.sum(empty == 0))
        for j in np.flatnonzero(empty).tolist():
            middle = "" if medians is None else f", {medians[j]:.4g}".replace("-", "−")
            done = f"gaps got the median{middle}; then mean 0 and deviation 1"
            notes.append(ColumnNote(plan.numbers[j], "numbers", int(empty[j]), done))
    if plan.sparse:
        done = "numbers that are mostly 0: brought to deviation 1"
        notes.append(ColumnNote(f"{len(plan.sparse)} columns", "sparse numbers", 0, done))
    for j, name in enumerate(plan.categories):
        gaps = int(features[name].isna().sum())
        missing += gaps
        notes.append(ColumnNote(name, "category", gaps, _levels(steps, j, gaps)))
    notes += [ColumnNote(name, "left out", 0, why) for name, why in plan.dropped]
    cells = len(features) * len(plan.used)
    return ColumnTable(tuple(notes), plain, missing, cells)


def _number_step(steps: dict[str, Any]) -> Any:
    from angcal.tables.columns import NumberColumns

    return steps["numbers"][0] if "numbers" in steps else NumberColumns()


def _levels(steps: dict[str, Any], place: int, gaps: int) -> str:
    if "categories" not in steps:
        return "one column for each level"
    encoder = steps["categories"][1]
    levels, rare = len(encoder.categories_[place]), encoder.infrequent_categories_[place]
    treatment = f"one column for each of {levels} levels"
    if rare is not None and len(rare):
        treatment += f", {len(rare)} rare ones together"
    return treatment + (", missing is a level" if gaps else "")


# -- The largest weights, and how they hold out when the rows change ----------------------------
#
# Weights are those of standardized columns, in percent of the largest. How stable they are is shown
# by the fits of the cross-validation, which see four fifths of the rows each.


MOST_WEIGHTS = 15


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of one fit by the names of their columns."""

    names: Any  # (d,) of str
    values: Floats  # (K, d): One row for two classes


@dataclass(frozen=True)
class Weight:
    """One of the largest weights."""

    column: str
    toward: str  # The class that a larger value speaks for
    relative: float  # In percent of the largest weight, with its sign for two classes
    low: float  # Range of the same over the fits of the cross-validation; NaN without one
    high: float
    same_sign: int  # In how many of these fits it has this sign, and is among the largest
    among_largest: int
    fits: int


def weights_of(prepare: Any, classifier: Any) -> Weights:
    """Weights of a fitted classifier by readable names of its prepared columns."""
    return Weights(readable_names(prepare), np.asarray(classifier.coef_, dtype=np.float64))


def readable_names(prepare: Any) -> Any:
    """Names of prepared columns: the column's own, or "column = level"."""
    raw = [str(name).split("__", 1)[1] for name in prepare.get_feature_names_out()]
    steps = {name: columns for name, _, columns in prepare.transformers_}
    plain = sum(len(steps.get(kind, ())) for kind in ("numbers", "sparse"))
    columns = sorted((str(name) for name in steps.get("categories", ())), key=len, reverse=True)
    names = raw[:plain]
    for name in raw[plain:]:
        column = next((one for one in columns if name.startswith(f"{one}_")), None)
        level = name[len(column) + 1 :] if column is not None else ""
        level = "a rare level" if level == "infrequent_sklearn" else level
        names.append(name if column is None else f"{column} = {level}")
    return np.array(names, dtype=str)


def largest_weights(
    all_rows: Weights, folds: Sequence[Weights], classes: Sequence[str]
) -> list[Weight]:
    """The largest weights of the fit on all rows, the largest first, with those of the folds."""
    values = all_rows.values
    largest = float(np.abs(values).max())
    if largest == 0.0:
        return []
    rivals = [fold for fold in folds if fold.values.shape[0] == values.shape[0]]
    tables = [_relative(fold) for fold in rivals]
    tops = [{names for names, _ in sorted(t.items(), key=_size)[:MOST_WEIGHTS]} for t in tables]
    order = np.argsort(-np.abs(values), axis=None, kind="stable")[:MOST_WEIGHTS]
    found = []
    for place in order:
        k, j = np.unravel_index(place, values.shape)
        key = (int(k), str(all_rows.names[j]))
        value = float(values[k, j] / largest)
        seen = np.array([table.get(key, 0.0) for table in tables])
        found.append(
            Weight(
                column=key[1],
                toward=classes[(1 if value > 0 else 0) if len(values) == 1 else int(k)],
                relative=100.0 * value,
                low=100.0 * float(seen.min()) if len(seen) else float("nan"),
                high=100.0 * float(seen.max()) if len(seen) else float("nan"),
                same_sign=int(np.sum(seen * value > 0)),
                among_largest=sum(key in top for top in tops),
                fits=len(seen),
            )
        )
    return found


def _relative(fold: Weights) -> dict[tuple[int, str], float]:
    """Weights in units of the largest, by class and column."""
    largest = float(np.abs(fold.values).max()) or 1.0
    return {
        (k, str(name)): float(value) / largest
        for k, row in enumerate(fold.values)
        for name, value in zip(fold.names, row, strict=True)
    }


def _size(entry: tuple[tuple[int, str], float]) -> float:
    return -abs(entry[1])
