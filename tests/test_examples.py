"""The course: every program runs, and its prose says what the program has or prints."""

from __future__ import annotations

import ast
import io
import re
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from angcal.metrics import decision_curve, expected_calibration_error, log_loss, top_label_ece

matplotlib = pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
COURSE = (
    "overconfidence_seen",
    "one_line_fix",
    "embeddings_with_few_labels",
    "genes",
    "pools_and_covariance",
    "choosing_the_penalty",
    "ten_digits",
    "how_sure",
    "when_not_to_trust_it",
)
STEMS = [f"plot_{number}_{name}" for number, name in enumerate(COURSE, start=1)]
NUMBER = re.compile(r"\d[\d_]*(?:\.\d+)?(?:e-?\d+)?")


def run(stem):
    """(namespace, printed lines, number of figures) of a program."""
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    plt.close("all")
    with redirect_stdout(io.StringIO()) as printed:
        namespace = runpy.run_path(str(EXAMPLES / f"{stem}.py"))
    figures = len(plt.get_fignums())
    plt.close("all")
    return namespace, printed.getvalue(), figures


def prose(text):
    """Docstring of a program and the comment below each ``# %%``, without mathematics."""
    parts = [ast.get_docstring(ast.parse(text))]
    for block in re.split(r"^# %%.*\n", text, flags=re.MULTILINE)[1:]:
        lines = []
        for line in block.splitlines():
            if not line.startswith("#"):
                break
            lines.append(line.lstrip("# "))
        parts.append("\n".join(lines))
    words = "\n\n".join(parts)
    words = re.sub(r"^\.\. math::.*?(?:\n\n|\Z)", "", words, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r":math:`[^`]*`|:doc:`[^`]*`", "", words)


def numbers(text):
    return {float(found.replace("_", "")) for found in NUMBER.findall(text)}


def test_the_course_is_numbered():
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == STEMS
    titles = [prose((EXAMPLES / f"{stem}.py").read_text()) for stem in STEMS]
    assert all(title.startswith(f"{n} ") for n, title in enumerate(titles, start=1))
    assert "Nine short programs" in (EXAMPLES / "GALLERY_HEADER.rst").read_text()


def test_numbers_of_prose_are_found_and_those_of_mathematics_left_out():
    docstring = '"""One of 5000 rows.\n\n.. math:: x^2\n\nmore"""'
    text = f"{docstring}\n\nx = 3\n\n# %%\n# :math:`7` and 0.8.\ny = 4\n"
    assert numbers(prose(text)) == {5000.0, 0.8}


# -- what the prose says of the figures --------------------------------------------------------


def overconfidence_seen(space):
    curve = space["curve"]
    low, high = curve.mean_predicted < 0.4, curve.mean_predicted > 0.6
    return (
        (curve.observed[low] > curve.mean_predicted[low]).all()  # low probabilities are too low
        and (curve.observed[high] < curve.mean_predicted[high]).all()
        and space["spread"] > 2 * space["deserved"]  # a flatter curve
    )


def one_line_fix(space):
    y, p, plain = space["y_test"], space["p"], space["plain"]
    order = np.argsort(space["u"])
    return (
        expected_calibration_error(y, p) < expected_calibration_error(y, plain) / 2
        and log_loss(y, p) < log_loss(y, plain)
        and (np.diff(p[order]) >= 0).all()  # ranked as before
        and np.mean(np.abs(plain - 0.5) > 0.4) > 0.5  # nearly always sure
        and np.mean(np.abs(p - 0.5) > 0.4) < 0.5
    )


def embeddings_with_few_labels(space):
    for values in space["found"].values():
        loss, ece = dict(zip(space["contenders"], values.mean(axis=1), strict=True)), 1
        ours, pooled = loss["angcal, 1 fit"], loss["angcal with pool, 1 fit"]
        folds = loss["5-fold sigmoid, 5 fits"]
        if not (0.35 < ours[ece] / folds[ece] < 0.65 and ours[0] < folds[0]):
            return False
        if np.abs(pooled - ours).max() > 0.02:  # the pool does not help
            return False
    return True


def genes(space):
    y, plain, p = space["y_test"], space["plain"], space["p"]
    high = decision_curve(y, plain, thresholds=[0.85, 0.9, 0.95]).net_benefit
    return (
        space["training"].min() > 0.5  # every training label is fitted
        and (high < 0).all()
        and log_loss(y, p) < min(log_loss(y, plain), log_loss(y, space["always"]))
    )


def pools_and_covariance(space):
    fitted, X, truth = space["fitted"], space["X_test"], space["truth"]
    width = {name: np.ptp(clf.angle_.interval) for name, clf in fitted.items()}
    off = {n: np.abs(clf.predict_proba(X)[:, 1] - truth).mean() for n, clf in fitted.items()}
    return (
        width["nothing"] > 2 * max(width["a pool"], width["the covariance"])
        and off["covariance and link"] < off["nothing"] / 2
        and max(abs(off[name] - off["nothing"]) for name in ("a pool", "the covariance")) < 0.005
    )


def choosing_the_penalty(space):
    path = space["path"]
    plain = path.uncalibrated_log_loss
    return (
        np.ptp(path.log_loss) < np.ptp(plain) / 2  # less delicate
        and plain[0] > plain.min() + 0.05  # punished at both ends
        and plain[-1] > plain.min() + 0.05
    )


def ten_digits(space):
    y, P = space["y"][space["test"]], space["probabilities"]
    ece = {name: top_label_ece(y, each) for name, each in P.items()}
    plain = P["plain, 1 fit"]
    return (
        plain.max(axis=1).mean() < (plain.argmax(axis=1) == y).mean() - 0.1  # underconfident
        and ece["5-fold sigmoid, 5 fits"] > ece["plain, 1 fit"]
        and max(ece["angcal, 1 fit"], ece["5-fold temperature, 5 fits"]) < ece["plain, 1 fit"] / 4
    )


def how_sure(space):
    width = {kind: np.diff(interval).mean() for kind, interval in space["intervals"].items()}
    return width["row"] > 3 * width["curve"]


def when_not_to_trust_it(space):
    rows, patients = space["fitted"].values()
    y, p = (
        space["y_new"],
        {clf: clf.predict_proba(space["X_new"])[:, 1] for clf in (rows, patients)},
    )
    promised = log_loss(space["y"], rows.loo_proba_[:, 1])
    shares = [space["y_bent"][part].mean() for part in space["tenths"]]
    return (
        promised < log_loss(y, p[rows]) - 0.05  # promise too much
        and expected_calibration_error(y, p[rows]) > 2 * expected_calibration_error(y, p[patients])
        and shares[0] > shares[3] < shares[-1]  # no rising curve
    )


@pytest.mark.parametrize(("stem", "claims"), list(zip(STEMS, COURSE, strict=True)))
def test_a_program_runs_draws_and_its_prose_is_right(stem, claims):
    text = (EXAMPLES / f"{stem}.py").read_text()
    namespace, printed, figures = run(stem)
    assert figures >= 1
    said = "\n".join(prose(text).splitlines()[1:])  # without the number of the page
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    code = code.replace(ast.get_docstring(ast.parse(text), clean=False), "")
    assert numbers(said) <= numbers(code + printed)
    assert globals()[claims](namespace)
