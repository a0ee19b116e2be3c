"""Findings -> one HTML page: drawings and texts are computed here, `report.html` lays them out."""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from angcal import __version__
from angcal.report import pictures
from angcal.report.comparison import CV_TEMPERATURE, PENALTIES_IN_FOLDS, fits_of
from angcal.report.figures import PValues, share_of_the_highest
from angcal.report.findings import Findings, FitFindings, examine, verdict
from angcal.report.narrative import between, in_plain_words, next_steps
from angcal.report.performance import (
    SHOWN,
    ClassPerformance,
    Estimate,
    Learning,
    OperatingPoint,
    Performance,
)
from angcal.report.tables import (
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_PICTURES,
    MOST_ROWS,
    ClassTable,
    RowTable,
    Weight,
)
from angcal.report.verdict import percent, shortened, signed, table_rows
from angcal.tables.errors import clean

ROUTES = {
    "loo": "the likelihood of leave-one-out scores",
    "observable": "the observable route, which needs a covariance or a pool",
    "combined": "leave-one-out scores and the observable route together",
    "given": "given by the user",
    "fallback": "none worked",
}
MAPS = {
    "angular": "the angular map",
    "temperature": "temperature scaling",
    "plain": "plain probabilities",
    "prevalence": "shares of the classes",
}
KINDS = (("Calibrated by angcal", "calibrated"), ("Plain", "plain"))
PATH = {"log_loss": "log-loss", "ece": "calibration error", "cosine": "cosine of the angle"}


def make_report(features: Any, y: Any, **options: Any) -> str:
    """An HTML page about how to get calibrated probabilities from this table.

    ``features`` is a DataFrame with one row per case and ``y`` their classes; the options are those
    of :func:`angcal.report.findings.examine`. The pictures are inline: the page asks nothing of the
    network, and is whole without its script.
    """
    return page(examine(features, y, **options))


def page(found: Findings) -> str:
    """The whole page."""
    words = tomllib.loads(files("angcal.report").joinpath("words.toml").read_text("utf-8"))
    said = verdict(found)
    content: dict[str, Any] = {
        "found": found,
        "fit": found.fit,
        "two": len(found.classes) == 2,
        "version": __version__,
        "versions": versions(),
        "headline": said[0],
        "plainly": [said[1], *(in_plain_words(found) or said[2:])],
        "sentences": said,
        "steps": next_steps(found),
        "drawings": _drawings(found),
        "positive": shortened(found.asked),
        "penalties_in_folds": PENALTIES_IN_FOLDS,
        "cv_temperature": CV_TEMPERATURE,
        "class_pictures": min(len(found.classes), MOST_PICTURES),
        "comparison_rows": _comparison_rows(found),
        "column_rows": [
            (one.name, one.kind, str(one.missing), one.treatment)
            for one in found.columns.columns[:MOST_COLUMNS]
        ],
        "checklist": [
            (item, about, f"in this report: {section}" if section else "yours to tell")
            for item, (about, section) in words["checklist"].items()
        ],
        "glossary": words["glossary"],
    }
    if found.fit is not None:
        content |= _fit_content(found, found.fit)
    return str(environment().get_template("report.html").render(content))


def _fit_content(found: Findings, fit: FitFindings) -> dict[str, Any]:
    """What a fitted model adds to the page."""
    angle, path = fit.model.angle_, fit.model.path_
    return {
        "route": ROUTES.get(angle.method, angle.method),
        "reason": angle.reason[:1].upper() + angle.reason[1:].rstrip(".") + ".",
        "degrees_of_freedom": float(path.degrees_of_freedom[path.index]),
        "facts": facts(fit),
        "figures": table_rows(fit.verdict),
        "class_rows": class_rows(fit.class_table),
        "line_rows": _line_rows(fit.performance),
        "test_rows": [(t.name, *_p_values(t)) for t in fit.tests],
        "row_rows": _row_rows(fit.rows, found.classes),
        "weight_rows": _weight_rows(fit.weights, len(found.classes)),
        "learning_rows": _learning_rows(fit.learning),
        "map_rows": _map_rows(fit.model),
        "top_share": share_of_the_highest(fit.model.observables_.leverage_shares),
        "most_rows": MOST_ROWS,
        "auc_text": between(fit.performance.classes[0].auc),
        "accuracy_text": rate_with_ends(fit.performance.accuracy),
        "confusion_names": [shortened(name) for name in found.classes],
        **acting_content(found, fit),
    }


def versions() -> list[tuple[str, str]]:
    """What the page was computed with."""
    from importlib.metadata import version
    from platform import python_version

    names = ("numpy", "scipy", "scikit-learn", "pandas")
    own = [("angcal", __version__), ("Python", python_version())]
    return own + [(name, version(name)) for name in names]


def _line_rows(performance: Performance) -> list[tuple[str, ...]]:
    """Calibration in the large, slope and intercept, of both models or of each class."""

    def cells(line: Any) -> list[str]:
        names = ("in_the_large", "slope", "intercept")
        return [_with_ends(getattr(line, n), getattr(line, f"{n}_interval")) for n in names]

    if len(performance.classes) == 1:
        pairs = ((name, performance.classes[0].lines[kind]) for name, kind in KINDS)
        return [(name, *cells(line)) for name, line in pairs]
    shown = sorted(performance.classes, key=lambda one: -one.observed)[:MOST_CLASSES]
    return [
        (
            shortened(one.name),
            f"{one.auc.value:.3f} ({one.auc.low:.3f} to {one.auc.high:.3f})",
            percent(one.observed),
            percent(one.predicted),
            *cells(one.lines["calibrated"])[:2],
        )
        for one in shown
    ]


def _p_values(test: PValues) -> tuple[str, ...]:
    return tuple(f"{p:.3f}" if p >= 0.001 else "< 0.001" for p in (test.plain, test.calibrated))


def _with_ends(value: float, ends: tuple[float, float]) -> str:
    if not np.isfinite(ends).all():
        return "not determined"
    return f"{signed(value)} ({signed(ends[0])} to {signed(ends[1])})"


def _row_rows(table: RowTable, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows of the table of rows; one of dots where some are left out."""
    lines: list[tuple[str, ...]] = []
    for i in table.shown():
        if i is None:
            lines.append(("…",) * 4 + (("…",) if len(names) > 2 else ()))
            continue
        reach = f"{table.low[i]:.1%} to {table.high[i]:.1%}"
        classes = [shortened(names[table.labels[i]])]
        if len(names) > 2:
            classes.append(shortened(names[table.predicted[i]]))
        lines.append((shortened(table.names[i]), *classes, f"{table.p[i]:.1%}", reach))
    return lines


def _weight_rows(weights: Sequence[Weight], n_classes: int) -> list[tuple[str, ...]]:
    return [
        (
            shortened(one.column),
            shortened(one.toward)
            if one.relative > 0 or n_classes == 2
            else f"not {shortened(one.toward)}",
            f"{abs(one.relative):.0f}",
            f"{one.same_sign} of {one.fits}" if one.fits else "–",
            f"{one.among_largest} of {one.fits}" if one.fits else "–",
        )
        for one in weights
    ]


def _learning_rows(learning: Learning) -> list[tuple[str, ...]]:
    """Expected accuracy and log-loss at each number of labels, of every plan."""
    lines = []
    for name, plan in learning.plans.items():
        for k, n in enumerate(plan.n):
            cells = []
            for measure, form in (("accuracy", ".1%"), ("log_loss", ".3f")):
                low, high = plan.intervals[measure][k]
                cells.append(f"{getattr(plan, measure)[k]:{form}} ({low:{form}} to {high:{form}})")
            lines.append((shortened(name), f"{n:.0f}", *cells))
    return lines


def class_rows(table: ClassTable) -> list[tuple[str, ...]]:
    """Rows of the table of classes: name, rows, share found, log-losses and calibration errors."""
    return [
        (
            shortened(one.name),
            str(one.rows),
            percent(one.found),
            *(f"{value:.3f}" for value in (*one.log_loss.values(), *one.ece.values())),
        )
        for one in table.first(MOST_CLASSES)
    ]


def _map_rows(model: Any) -> list[tuple[str, str]]:
    """Leave-one-out log-losses of the maps that three and more classes choose from."""
    losses = getattr(getattr(model, "calibration_", None), "losses", {})
    return [(MAPS.get(name, name), f"{loss:.4f}") for name, loss in losses.items()]


@cache
def environment() -> Any:
    """Jinja with escaping on, so that nothing from the data becomes markup."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=PackageLoader("angcal.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        # Escaping leaves characters that no page may hold.
        finalize=lambda value: value if isinstance(value, Markup) else clean(value),
    )
    made.filters |= {"percent": percent, "signed": signed}
    folder = files("angcal.report")
    style, script = (folder.joinpath(f"report.{kind}").read_text("utf-8") for kind in ("css", "js"))
    # The policy of the page lets this script run and no other.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made.globals |= {"style": Markup(style), "script": Markup(script), "script_hash": digest}
    return made


def facts(fit: FitFindings) -> list[tuple[str, str, str]]:
    """Tiles below the verdict: word of the glossary, name and figure."""
    plain, calibrated = fit.verdict.plain, fit.verdict.calibrated
    performance, two = fit.performance, fit.figures.two
    tiles = [
        ("auc", "AUC" if two else "Mean AUC", f"{performance.mean_auc:.2f}"),
        ("", "Accuracy", percent(performance.accuracy.value)),
        ("log-loss", "Log-loss", f"{calibrated.log_loss:.3f} (plain {plain.log_loss:.3f})"),
        ("ece", "Calibration error", f"{calibrated.ece:.3f} (plain {plain.ece:.3f})"),
    ]
    if two:
        slope = signed(performance.classes[0].lines["calibrated"].slope)
        tiles.insert(2, ("slope", "Calibration slope", slope))
    return tiles


def _drawings(found: Findings) -> dict[str, Any]:
    drawings: dict[str, Any] = {}
    if found.fit is not None:
        drawings |= _fit_drawings(found, found.fit)
    if found.comparison is not None:
        drawings["compared_loss"] = pictures.comparison(found.comparison, "log-loss")
        drawings["compared_ece"] = pictures.comparison(found.comparison, "ECE")
    return drawings


def _fit_drawings(found: Findings, fit: FitFindings) -> dict[str, Any]:
    """Pictures of the fit to all rows."""
    model, figures = fit.model, fit.figures
    drawings: dict[str, Any] = {"angle": None}
    seen, names = figures.seen_from(found.positive), list(found.classes)
    if figures.two and found.positive == 0:
        names.reverse()
    for kind in ("calibrated", "plain"):
        drawings[kind] = pictures.reliability(seen, kind, names)
    drawings["rows"] = pictures.rows(
        fit.rows, found.classes, found.positive if figures.two else None
    )
    if fit.weights:
        drawings["weights"] = pictures.weights(fit.weights)
    if fit.diagnostics is not None:
        drawings["quantiles"] = pictures.quantiles(fit.diagnostics)
    if fit.verdict.angles is not None:
        drawings["angle"] = pictures.class_angles(model)
    elif not model.angle_.is_fallback:
        drawings["angle"] = pictures.angle(model)
    if figures.two:
        drawings["link"] = pictures.smoothed_link(model)
    else:
        drawings["link"] = pictures.plain_and_calibrated(figures)
        drawings["classes"] = pictures.classes(fit.class_table.first(MOST_PICTURES))
    shown = [name for name in PATH if figures.two or np.isfinite(getattr(model.path_, name)).any()]
    drawings |= {name: pictures.penalty_path(model.path_, name, PATH[name]) for name in shown}
    return drawings


def _comparison_rows(found: Findings) -> list[list[str]]:
    compared = found.comparison
    if compared is None:
        return []
    return [
        [
            method.name,
            fits_of(method, len(found.classes)),
            method.labels,
            *(f"{v[i]:.3f} ± {compared.errors[m][i]:.3f}" for m, v in compared.values.items()),
        ]
        for i, method in enumerate(compared.methods)
    ]


# -- acting at a threshold, which a slider moves -------------------------------------------------


# Classes with a decision curve, the most frequent first; each adds some ten kilobytes.
MOST_ACTED, MOST_CONFUSED = 6, 12
CELLS = ("share", "threshold", "tp", "fp", "fn", "tn",
         "sensitivity", "specificity", "ppv", "npv", "benefit", "all", "miss")  # fmt: skip
"""Names of the places of a point, as `report.html` refers to them."""


def acting_content(found: Findings, fit: FitFindings) -> dict[str, Any]:
    """What the template needs: points of every class, pictures, tables for those without script."""
    performance = fit.performance
    order = sorted(range(len(performance.classes)), key=lambda k: -performance.classes[k].observed)
    acted = [performance.classes[k] for k in order[:MOST_ACTED]]
    first = acted[0]
    start = first.points.index(first.at(performance.threshold))
    return {
        "acted": [shortened(one.name) for one in acted],
        "acted_points": json.dumps([[_cells(p) for p in one.points] for one in acted]),
        "acted_start": start,
        "acted_last": len(first.points) - 1,
        "acted_now": dict(zip(CELLS, _cells(first.points[start]), strict=True)),
        "cell_places": {name: place for place, name in enumerate(CELLS)},
        "decisions": [
            pictures.decision(one, performance.threshold, f"decision-{place}")
            for place, one in enumerate(acted)
        ],
        "threshold_rows": [_row(first, t) for t in SHOWN],
        "learning_pictures": _learning_pictures(fit.learning),
        "confusion_rows": _confusion_rows(found.classes, performance.confusion),
    }


def _learning_pictures(learning: Learning) -> list[tuple[str, Any]]:
    if len(learning.plans) == 1:
        (plan,) = learning.plans.values()
        return [
            ("", pictures.learning(plan, measure, f"learning-{measure}"))
            for measure in ("accuracy", "log_loss")
        ]
    return [
        (shortened(name), pictures.learning(plan, "accuracy", f"learning-{place}"))
        for place, (name, plan) in enumerate(learning.plans.items())
    ]


def _cells(point: OperatingPoint) -> list[Any]:
    """A point as the page shows it; the first entry is for the picture."""
    rates = (point.sensitivity, point.specificity, point.ppv, point.npv)
    return [
        round(point.threshold, 4),
        f"{100 * point.threshold:.3g}%",
        *(str(count) for count in point.counts),
        *(rate_with_ends(rate) for rate in rates),
        signed(point.net_benefit, True),
        signed(point.treat_all, True),
        miss_in_false_alarms(point.threshold),
    ]


def miss_in_false_alarms(threshold: float) -> str:
    """What a missed row costs where a threshold costs least: (1 − t)/t false alarms."""
    count = f"{(1.0 - threshold) / threshold:.2g}" if threshold > 0 else "any number of"
    return f"{count} false alarm" + ("" if count == "1" else "s")


def rate_with_ends(rate: Estimate) -> str:
    """A share with its interval in whole percent."""
    if rate.value != rate.value:
        return "no such row"
    return f"{rate.value:.0%} ({rate.low:.0%} to {rate.high:.0%})"


def _row(one: ClassPerformance, threshold: float) -> list[str]:
    cells = _cells(one.at(threshold))
    return [cells[1], *cells[6:11]]


def _confusion_rows(classes: Sequence[str], matrix: Any) -> list[list[str]]:
    """Rows of each class by their likeliest class; of many classes the commonest confusions."""
    names = [shortened(name) for name in classes]
    if len(names) <= MOST_CONFUSED:
        return [
            [name, *(str(count) for count in row)] for name, row in zip(names, matrix, strict=True)
        ]
    pairs = [
        (int(matrix[i, j]), i, j)
        for i in range(len(names))
        for j in range(len(names))
        if i != j and matrix[i, j]
    ]
    pairs.sort(key=lambda pair: -pair[0])
    return [[names[i], names[j], str(count)] for count, i, j in pairs[:MOST_CONFUSED]]
