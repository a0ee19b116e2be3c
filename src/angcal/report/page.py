"""Findings -> one HTML page: the verdict first, then what it rests on."""

from __future__ import annotations

from typing import Any

from angcal.report import figures
from angcal.report.blocks import picture, section, table
from angcal.report.comparison import ANGCAL, METRICS, UNCALIBRATED, Comparison
from angcal.report.findings import Findings, TwoClasses
from angcal.report.markup import Markup, join, tag
from angcal.report.style import STYLE
from angcal.report.verdict import percent, shortened, signed, verdict

# Nothing may be loaded and nothing may run, whatever a name in the data says.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
PAPER = (
    "Y. Li and P. Sur, Optimal and Provable Calibration in High-Dimensional Binary "
    "Classification: Angular Calibration and Platt Scaling, NeurIPS 2025."
)
CITATION = """\
@inproceedings{{li2025angular,
  title     = {{Optimal and Provable Calibration in High-Dimensional Binary Classification:
               Angular Calibration and Platt Scaling}},
  author    = {{Li, Y. and Sur, P.}},
  booktitle = {{Advances in Neural Information Processing Systems}},
  year      = {{2025}}
}}
@software{{angcal,
  title     = {{angcal: calibrated probabilities for linear classifiers}},
  author    = {{{{The angcal developers}}}},
  version   = {{{version}}}
}}"""
RELIABILITY = (
    "Where the model says 30 %, “{}” should come up in 30 % of the rows. Each row's probability "
    "here comes from a fit that left it out. Points outside the shaded band are off by more than "
    "chance, at 95 % for each bin by itself."
)
PATH = {
    "log_loss": "Log-loss from the strongest penalty to the weakest, without folds. Shaded: one "
    "standard error.",
    "ece": "The expected calibration error, 15 bins.",
    "cosine": "How well the weights point. Shaded: the interval, given the link.",
}
LOWER = "Lower is better. Differences within a standard error or two are chance."
ROUTES = {
    "loo": "the likelihood of leave-one-out scores",
    "observable": "the observable route, which needs a covariance or a pool",
    "combined": "leave-one-out scores and the observable route together",
    "given": "given by the user",
    "fallback": "none worked",
}
MOST_DROPPED = 50


def page(found: Findings) -> str:
    """The whole page."""
    body = tag(
        "main",
        tag("h1", found.title),
        tag("p", f"Probabilities of {found.target}, by angcal {_version()}", class_="subtitle"),
        _verdict(found),
        _two_class_sections(found, found.two) if found.two is not None else _class_sections(found),
        _angles(found),
        _comparison(found),
        _diagnostics(found),
        _columns(found),
        _citation(),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", found.title),
        tag("style", Markup(STYLE)),
    )
    foot = tag(
        "footer",
        f"Made by angcal {_version()} with seed {found.seed}. This file holds all it shows: it "
        "loads nothing and runs no script.",
    )
    return f'<!DOCTYPE html>\n<html lang="en">{head}<body>{body}{foot}</body></html>\n'


def _version() -> str:
    # Late: the package's own front door is above this module.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("angcal")
    except PackageNotFoundError:
        return "(unreleased)"


# -- sections ----------------------------------------------------------------------------------


def _verdict(found: Findings) -> Markup:
    first, *others = verdict(found)
    box = tag(
        "section",
        tag("h2", "Verdict", id="verdict"),
        tag("p", first, class_="headline"),
        [tag("p", sentence) for sentence in others],
        class_="verdict",
        aria_labelledby="verdict",
    )
    return join([box, _facts(found.two)])


def _facts(two: TwoClasses | None) -> Markup | None:
    if two is None:
        return None
    angle = two.model.angle_
    facts = [
        ("Log-loss, calibrated", f"{two.log_loss('calibrated'):.3f}"),
        ("Log-loss, plain", f"{two.log_loss('plain'):.3f}"),
        ("ECE, calibrated", f"{two.ece('calibrated'):.3f}"),
        ("ECE, plain", f"{two.ece('plain'):.3f}"),
        ("Angle", "none" if angle.is_fallback else f"{angle.degrees:.0f}°"),
        ("Chosen C", f"{two.model.C_:.2g}"),
    ]
    listed = tag(
        "dl",
        [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts],
        class_="facts",
    )
    note = (
        "Losses and errors are leave-one-out, of the fit on all rows; plain is the same fit "
        "without calibration. ECE is the expected calibration error, 15 bins."
    )
    return join([listed, tag("p", note, class_="note")])


def _two_class_sections(found: Findings, two: TwoClasses) -> Markup:
    positive = found.classes[1]
    return join(
        [
            section(
                "reliability",
                "Reliability",
                tag("p", RELIABILITY.format(shortened(positive))),
                tag(
                    "div",
                    picture(
                        figures.reliability(two, "calibrated", positive),
                        "Calibrated by angcal. Its curve has two or three numbers fitted to these "
                        "rows, which flatters it, most where rows are few; the comparison below "
                        "does not.",
                    ),
                    picture(
                        figures.reliability(two, "plain", positive),
                        "The same fit with the raw sigmoid: plain logistic regression.",
                    ),
                    class_="pictures",
                ),
            ),
            tag("div", _angle(two), _link(two), class_="pictures"),
            _path(two),
        ]
    )


def _angle(two: TwoClasses) -> Markup:
    if two.model.angle_.is_fallback:
        return section("angle", "The angle", tag("p", f"There is none: {two.model.angle_.reason}."))
    return section(
        "angle",
        "The angle",
        picture(
            figures.angle(two),
            "How far the fitted weights are turned away from the true ones. The further, the less "
            "a score may be believed.",
        ),
    )


def _link(two: TwoClasses) -> Markup:
    return section(
        "link",
        "From score to probability",
        picture(
            figures.smoothed_link(two),
            "The calibrated curve F beside the raw sigmoid. A flatter curve is a model that was "
            "overconfident.",
        ),
    )


def _path(two: TwoClasses) -> Markup:
    path = two.model.path_
    degrees = float(path.degrees_of_freedom[path.index])
    return section(
        "penalty",
        "The penalty",
        tag(
            "p",
            f"Of {len(path.C)} penalties C = {two.model.C_:.2g} has the lowest calibrated "
            f"leave-one-out log-loss. Its fit has {degrees:.1f} degrees of freedom for "
            f"{len(two.labels)} rows.",
        ),
        tag(
            "div",
            [picture(figures.penalty_path(two, name), told) for name, told in PATH.items()],
            class_="pictures three",
        ),
    )


def _class_sections(found: Findings) -> Markup:
    if found.comparison is None:
        return Markup("")
    wanted = dict.fromkeys([ANGCAL, UNCALIBRATED, *found.comparison.names])
    names = [name for name in wanted if found.comparison.has(name)][:2]
    limit = ""
    if len(found.classes) > figures.MOST_PANELS:
        limit = (
            f" The {figures.MOST_PANELS} most frequent of {len(found.classes)} classes are shown."
        )
    return section(
        "reliability",
        "Reliability of each class",
        tag(
            "p",
            "Where the model gives a class 30 %, it should come up in 30 % of the rows. The "
            f"probabilities are those of rows left out of the fit, by cross-validation.{limit}",
        ),
        tag(
            "div",
            [
                picture(figures.classwise(found, name), f"One picture for each class: {name}.")
                for name in names
            ],
            class_="pictures",
        ),
    )


def _angles(found: Findings) -> Markup | None:
    angles = found.angles
    if angles is None:
        return None
    shown = None
    if len(found.classes) <= figures.MOST_PANELS:
        shown = picture(
            figures.angle_matrix(angles, found.classes),
            "Cosines between the true weights of each class (rows) and the fitted ones (columns). "
            "Those on the diagonal should be near 1.",
        )
    return section(
        "angles",
        "The angles",
        shown,
        tag("p", f"Method: {ROUTES.get(angles.method, angles.method)}. {_sentence(angles.reason)}"),
    )


def _comparison(found: Findings) -> Markup:
    compared = found.comparison
    if compared is None:
        return section("comparison", "Comparison", tag("p", found.why_no_comparison))
    times = "once" if compared.repeats == 1 else f"{compared.repeats} times"
    several = len(found.classes) > 2
    ece = "the mean over classes of their ECE" if several else "ECE"
    notes = [
        f"{compared.folds}-fold stratified cross-validation on your rows, {times}. ± is one "
        f"standard error over rows, by bootstrap for {ece}. Of each ECE about "
        f"{compared.chance:.3f} is chance: a calibrated model shows it on {found.n_rows} rows.",
        "Fits are those that each training set pays for. Every method but “C = 1” uses the penalty "
        "that angcal chose on the same training rows, whose price is in angcal's row.",
    ]
    failures = [f"{name} was left out: {reason}" for name, reason in compared.failures.items()]
    return section(
        "comparison",
        "Comparison",
        [tag("p", note) for note in (*notes, *failures)],
        tag(
            "div",
            picture(figures.comparison(compared, "log-loss"), LOWER),
            picture(
                figures.comparison(compared, "ECE"),
                f"The expected calibration error; about {compared.chance:.3f} of it is chance.",
            ),
            class_="pictures",
        ),
        _comparison_table(compared, several),
    )


def _comparison_table(compared: Comparison, several: bool) -> Markup:
    rows = [
        [
            method.name,
            method.fits_several if several else method.fits,
            method.labels,
            *(
                f"{compared.values[metric][i]:.3f} ± {compared.errors[metric][i]:.3f}"
                for metric in METRICS
            ),
        ]
        for i, method in enumerate(compared.methods)
    ]
    header = ["Method", "Fits", "Labels per fit", "Log-loss", "Brier score", "ECE"]
    return table("Out-of-fold scores, lower is better", header, rows, 3)


def _diagnostics(found: Findings) -> Markup:
    parts: list[Any] = []
    if found.two is not None:
        parts = _two_class_diagnostics(found.two)
    parts.append(tag("h3", "Warnings"))
    if found.complaints:
        parts.append(tag("ul", [tag("li", message) for message in found.complaints]))
    else:
        parts.append(tag("p", "The fit raised none."))
    return section("diagnostics", "Diagnostics", parts)


def _two_class_diagnostics(two: TwoClasses) -> list[Any]:
    angle, shape = two.model.angle_, two.diagnostics
    low, high = angle.interval
    return [
        tag("h3", "How Gaussian the scores are"),
        tag(
            "p",
            f"{shape.shape} Skewness {signed(shape.skewness)} and excess kurtosis "
            f"{signed(shape.excess_kurtosis)}; for a Gaussian both are 0, give or take "
            f"{shape.skewness_error:.2f} and {shape.kurtosis_error:.2f} on so many rows.",
        ),
        picture(
            figures.quantiles(shape),
            "Leave-one-out scores in standard deviations against a Gaussian. Points on the line "
            "agree with it.",
        ),
        tag("h3", "How evenly rows count"),
        tag(
            "p",
            f"{shape.evenness} The unevenness of the leave-one-out steps is "
            f"{shape.unevenness:.2f} (0 is even), and the 5 % of rows with the most leverage have "
            f"{percent(shape.top_share)} of it.",
        ),
        tag("h3", "Which angle, and why"),
        tag(
            "p",
            f"Method: {ROUTES[angle.method]}. {_sentence(angle.reason)} The cosine is "
            f"{signed(angle.cosine)}, its {percent(angle.confidence)} interval {signed(low)} to "
            f"{signed(high)}. The scores' spread comes from the {two.model.scale_.source}; the "
            f"link is {two.model.link_.name} with scale {two.model.link_.scale:.2f} and offset "
            f"{signed(two.model.link_.offset)}.",
        ),
    ]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _columns(found: Findings) -> Markup:
    text = f"The table has {found.n_columns} columns besides {found.target}"
    if not found.dropped:
        used = "All of them were used." if not found.refusal else "None of them was dropped."
        return section("columns", "Columns", tag("p", f"{text}. {used}"))
    rows = found.dropped[:MOST_DROPPED]
    more = len(found.dropped) - len(rows)
    return section(
        "columns",
        "Columns",
        tag("p", f"{text}; {len(found.dropped)} of them were left out."),
        table("Columns that were left out", ["Column", "Why"], rows, 2),
        tag("p", f"And {more} more.") if more > 0 else None,
    )


def _citation() -> Markup:
    version = _version()
    return section(
        "cite",
        "How to cite",
        tag("p", f"The method: {PAPER}"),
        tag("p", f"The software: The angcal developers, angcal, version {version}."),
        tag("pre", CITATION.format(version=version), tabindex="0"),
    )
