"""Findings -> one HTML page: drawings and texts are computed here, `report.html` lays them out."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from importlib.resources import files
from typing import Any

from angcal.report import pictures
from angcal.report.comparison import ANGCAL, METRICS, UNCALIBRATED
from angcal.report.findings import DEFAULT_TITLE, Findings, Progress, examine, verdict
from angcal.report.verdict import percent, shortened, signed
from angcal.tables.errors import clean

ROUTES = {
    "loo": "the likelihood of leave-one-out scores",
    "observable": "the observable route, which needs a covariance or a pool",
    "combined": "leave-one-out scores and the observable route together",
    "given": "given by the user",
    "fallback": "none worked",
}
PATH = {"log_loss": "log-loss", "ece": "calibration error", "cosine": "cosine of the angle"}


def make_report(
    features: Any,
    y: Any,
    *,
    pool: Any = None,
    title: str = DEFAULT_TITLE,
    seed: int = 0,
    target: str = "y",
    repeats: int | None = None,
    progress: Progress | None = None,
) -> str:
    """An HTML page about how to get calibrated probabilities from this table.

    Parameters
    ----------
    features : DataFrame
        One row per case; numbers and categories.
    y : (n,) array or Series
        Classes.
    pool : DataFrame, optional
        Rows without labels, with the columns of `features`.
    title : str
    seed : int
        Of the folds and the bootstrap; the same seed gives the same page.
    target : str
        What `y` is called.
    repeats : int, optional
        Repetitions of the cross-validation; by default fewer for larger tables.
    progress : callable, optional
        Called as ``progress(done, total, what)`` while the page is made.

    Returns
    -------
    str
        HTML with inline pictures: it asks nothing of the network and runs no script.
    """
    found = examine(
        features,
        y,
        pool=pool,
        title=title,
        seed=seed,
        target=target,
        repeats=repeats,
        progress=progress,
    )
    return page(found)


def page(found: Findings) -> str:
    """The whole page."""
    two = found.diagnostics is not None
    angle = getattr(found.model, "angle_", None)
    content: dict[str, Any] = {
        "found": found,
        "two": two,
        "version": _version(),
        "sentences": verdict(found),
        "drawings": _drawings(found),
        "most_panels": pictures.MOST_PANELS,
        "positive": shortened(found.classes[1]),
        "comparison_rows": _comparison_rows(found),
    }
    if angle is not None:
        content |= {
            "route": ROUTES.get(angle.method, angle.method),
            "reason": angle.reason[:1].upper() + angle.reason[1:].rstrip(".") + ".",
        }
    if two:
        path = found.model.path_
        content["degrees_of_freedom"] = float(path.degrees_of_freedom[path.index])
        content["facts"] = facts(found)
    return str(environment().get_template("report.html").render(content))


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


def _version() -> str:
    try:
        return version_of("angcal")
    except PackageNotFoundError:
        return "(unreleased)"


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
    model, compared, figures = found.model, found.comparison, found.figures
    drawings: dict[str, Any] = {"angle": None, "angles": None}
    if found.diagnostics is not None and figures is not None:
        for kind in ("calibrated", "plain"):
            drawings[kind] = pictures.reliability(figures, kind, found.classes[1])
        if not model.angle_.is_fallback:
            drawings["angle"] = pictures.angle(model)
        drawings["link"] = pictures.smoothed_link(model)
        for metric, name in PATH.items():
            drawings[metric] = pictures.penalty_path(model.path_, metric, name)
        drawings["quantiles"] = pictures.quantiles(found.diagnostics)
    elif compared is not None:
        names = dict.fromkeys([ANGCAL, UNCALIBRATED, *compared.names])
        shown = [name for name in names if compared.has(name)][:2]
        drawings["classwise"] = {name: pictures.classwise(found, compared, name) for name in shown}
    if found.cosines is not None and len(found.classes) <= pictures.MOST_PANELS:
        drawings["angles"] = pictures.angle_matrix(found.cosines, found.classes)
    if compared is not None:
        drawings["compared_loss"] = pictures.comparison(compared, "log-loss")
        drawings["compared_ece"] = pictures.comparison(compared, "ECE")
    return drawings


def _comparison_rows(found: Findings) -> list[list[str]]:
    compared, multiclass = found.comparison, len(found.classes) > 2
    if compared is None:
        return []
    return [
        [
            method.name,
            method.fits_multiclass if multiclass else method.fits,
            method.labels,
            *(
                f"{compared.values[metric][i]:.3f} ± {compared.errors[metric][i]:.3f}"
                for metric in METRICS
            ),
        ]
        for i, method in enumerate(compared.methods)
    ]
