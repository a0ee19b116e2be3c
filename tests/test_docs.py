"""What README and docs show runs, and what they point at exists."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import angcal
from angcal import AngularCalibratedClassifier, Logit, MEstimator, Ridge
from angcal.simulation import simulate

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
names = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def prepared():
    """What a reader has at hand: data, a pool, a fitted model and its weights."""
    data = simulate(120, 30, link=Logit(3.0, 1.0), random_state=0)
    fitted = LogisticRegression(tol=1e-8, max_iter=1000).fit(data.X, data.y)
    return {
        "X": data.X,
        "y": data.y,
        "X_new": data.sample(10, random_state=1)[0],
        "X_unlabelled": data.pool(80, random_state=2),
        "X_raw": data.pool(80, random_state=3),
        "fitted": fitted,
        "model": LogisticRegression(),
        "Sigma": data.covariance.matrix(),
        "coef": fitted.coef_[0],
        "intercept": float(fitted.intercept_[0]),
    }


def run(page):
    """Execute a page's blocks in one namespace; a traceback names page and block."""
    namespace = prepared()
    for number, block in enumerate(python_blocks(page), start=1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)
    return namespace


def test_there_are_blocks_to_run():
    assert len(python_blocks(ROOT / "README.md")) >= 3
    assert len(python_blocks(ROOT / "docs" / "extending.md")) >= 4


@names
def test_every_block_runs(page):
    run(page)


def test_the_readmes_classifier_predicts():
    namespace = run(ROOT / "README.md")
    p = namespace["clf"].predict_proba(namespace["X_new"])
    assert p.shape == (10, 2)
    assert np.ptp(p[:, 1]) > 0.1


def test_the_readmes_unfitted_calls_can_be_fitted():
    """Calls that are only constructed on the page work with the data that they are meant for."""
    data = prepared()
    page = (ROOT / "README.md").read_text()
    assert 'angle="observable", covariance=Sigma' in page
    paper = AngularCalibratedClassifier(
        data["model"], link=Logit(scale=3, offset=1), angle="observable", covariance=data["Sigma"]
    ).fit(data["X"], data["y"])
    assert paper.angle_.method == "observable"
    assert 'MEstimator("huberised_hinge", Ridge(1e-3))' in page
    own = AngularCalibratedClassifier(MEstimator("huberised_hinge", Ridge(1e-3)))
    assert not own.fit(data["X"], data["y"]).angle_.is_fallback


def test_the_guides_own_loss_penalty_and_link_fit():
    namespace = run(ROOT / "docs" / "extending.md")
    X, y = namespace["X"], namespace["y"]
    labels = np.array([0.0, 1.0, 1.0])
    scores, h = np.array([-0.7, 0.2, 3.0]), 1e-5
    loss = namespace["LogCosh"]()
    slope = (loss.value(scores + h, labels) - loss.value(scores - h, labels)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(scores, labels), slope, atol=1e-8)
    bend = (loss.gradient(scores + h, labels) - loss.gradient(scores - h, labels)) / (2 * h)
    np.testing.assert_allclose(loss.hessian(scores, labels), bend, atol=1e-8)
    model = MEstimator(loss, namespace["WeightedRidge"](np.linspace(0.01, 0.1, X.shape[1])))
    assert AngularCalibratedClassifier(model).fit(X, y).angle_.cosine > 0
    clf = namespace["clf"].fit(X, y)
    assert clf.link_ is namespace["link"]
    assert np.all((clf.predict_proba(X) >= 0.05 - 1e-9) & (clf.predict_proba(X) <= 0.95 + 1e-9))


def make_commands(text):
    return set(re.findall(r"(?:^|`)make ([a-z]+)", text, flags=re.MULTILINE))


def test_the_readmes_make_commands_exist():
    commands = make_commands((ROOT / "README.md").read_text())
    assert commands == {"demo", "test"}
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:(.*)$", makefile, flags=re.MULTILINE).group(1).split()
    for command in commands:
        assert re.search(rf"^{command}:", makefile, flags=re.MULTILINE)
        assert command in phony


@names
def test_links_and_named_files_exist(page):
    text = page.read_text()
    targets = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", text))
    missing = [target for target in targets if not (page.parent / target).exists()]
    missing += [s for s in re.findall(r"`python ([\w/.]+)`", text) if not (ROOT / s).exists()]
    assert not missing


@names
def test_names_imported_on_a_page_are_public(page):
    for block in python_blocks(page):
        for line in re.findall(r"^from angcal import (.+)$", block, flags=re.MULTILINE):
            assert {name.strip() for name in line.split(",")} <= set(angcal.__all__)
