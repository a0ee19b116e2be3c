"""Findings -> one HTML page: drawings and texts are computed here, `report.html` lays them out."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from angcal import __version__
from angcal.report import pictures
from angcal.report.classes import MOST_PICTURES, MOST_ROWS
from angcal.report.comparison import CV_TEMPERATURE, PENALTIES_IN_FOLDS, fits_of
from angcal.report.figures import share_of_the_highest
from angcal.report.findings import Findings, examine, verdict
from angcal.report.next_steps import next_steps
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
PATH = {"log_loss": "log-loss", "ece": "calibration error", "cosine": "cosine of the angle"}


def make_report(features: Any, y: Any, **options: Any) -> str:
    """An HTML page about how to get calibrated probabilities from this table.

    Parameters
    ----------
    features : DataFrame
        One row per case; numbers and categories.
    y : (n,) array or Series
        Classes.
    pool : DataFrame, optional
        Rows without labels, with the columns of `features`.
    title : str, optional
        Heading of the page.
    seed : int
        Of the folds and the bootstrap; the same seed gives the same page.
    target : str
        What `y` is called.
    repeats : int, optional
        Repetitions of the cross-validation; by default fewer for larger tables.
    progress : callable, optional
        Called as ``progress(done, total, what)`` while the page is made.
    groups : (n,) array of int, optional
        Which rows belong together, such as those of one patient.

    Returns
    -------
    str
        HTML with inline pictures: it asks nothing of the network and runs no script.
    """
    return page(examine(features, y, **options))


def page(found: Findings) -> str:
    """The whole page."""
    content: dict[str, Any] = {
        "found": found,
        "two": len(found.classes) == 2,
        "version": __version__,
        "sentences": verdict(found),
        "steps": next_steps(found),
        "drawings": _drawings(found),
        "positive": shortened(found.classes[1]),
        "penalties_in_folds": PENALTIES_IN_FOLDS,
        "cv_temperature": CV_TEMPERATURE,
        "class_pictures": min(len(found.classes), MOST_PICTURES),
        "comparison_rows": _comparison_rows(found),
    }
    if found.verdict is not None:
        angle, path = found.model.angle_, found.model.path_
        content |= {
            "route": ROUTES.get(angle.method, angle.method),
            "reason": angle.reason[:1].upper() + angle.reason[1:].rstrip(".") + ".",
            "degrees_of_freedom": float(path.degrees_of_freedom[path.index]),
            "facts": facts(found),
            "figures": table_rows(found.verdict),
            "class_rows": class_rows(found),
            "map_rows": _map_rows(found.model),
            "top_share": share_of_the_highest(found.model.observables_.leverage_shares),
        }
    return str(environment().get_template("report.html").render(content))


def class_rows(found: Findings) -> list[tuple[str, ...]]:
    """Rows of the table of classes: name, rows, share found, log-losses and calibration errors."""
    table: Any = found.class_table
    return [
        (
            shortened(one.name),
            str(one.rows),
            percent(one.found),
            *(f"{value:.3f}" for value in (*one.log_loss.values(), *one.ece.values())),
        )
        for one in table.first(MOST_ROWS)
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
    made.globals["style"] = Markup(files("angcal.report").joinpath("report.css").read_text("utf-8"))
    return made


def facts(found: Findings) -> list[tuple[str, str]]:
    """Tiles below the verdict; an angle that labels do not determine gets none."""
    judged: Any = found.verdict
    facts = [
        ("Log-loss, calibrated", f"{judged.calibrated.log_loss:.3f}"),
        ("Log-loss, plain", f"{judged.plain.log_loss:.3f}"),
        ("ECE, calibrated", f"{judged.calibrated.ece:.3f}"),
        ("ECE, plain", f"{judged.plain.ece:.3f}"),
        ("Chosen C", f"{judged.C:.2g}"),
    ]
    if judged.angle is None:
        facts.insert(4, ("Angle", "none"))
    elif judged.angle.is_determined:
        facts.insert(4, ("Angle", f"{judged.angle.degrees:.0f}°"))
    return facts


def _drawings(found: Findings) -> dict[str, Any]:
    drawings: dict[str, Any] = {}
    if found.verdict is not None:
        drawings |= _model_drawings(found)
    if found.diagnostics is not None:
        drawings["quantiles"] = pictures.quantiles(found.diagnostics)
    if found.comparison is not None:
        drawings["compared_loss"] = pictures.comparison(found.comparison, "log-loss")
        drawings["compared_ece"] = pictures.comparison(found.comparison, "ECE")
    return drawings


def _model_drawings(found: Findings) -> dict[str, Any]:
    """Pictures of the fit to all rows."""
    model, judged = found.model, found.verdict
    figures: Any = found.figures
    table: Any = found.class_table
    drawings: dict[str, Any] = {"angle": None}
    for kind in ("calibrated", "plain"):
        drawings[kind] = pictures.reliability(figures, kind, found.classes[1])
    if judged is not None and judged.angles is not None:
        drawings["angle"] = pictures.class_angles(model)
    elif not model.angle_.is_fallback:
        drawings["angle"] = pictures.angle(model)
    if figures.two:
        drawings["link"] = pictures.smoothed_link(model)
    else:
        drawings["link"] = pictures.plain_and_calibrated(figures)
        drawings["classes"] = pictures.classes(table.first(MOST_PICTURES))
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
