"""The interactive page of the docs: the numbers of the library, nothing logged or requested."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from angcal.links import Logit
from angcal.theory import Spectrum, state_of_fit
from tests.test_report_browser import CHROMIUM, Browser

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explore" / "explore.html"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
SHARED = (
    *("cosine", "norm", "intercept", "training_loss", "log_loss", "accuracy", "ece"),
    *("calibrated_log_loss", "calibrated_accuracy", "bayes_log_loss", "bayes_accuracy"),
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.mark.parametrize(
    ("ratio", "rho", "kappa", "beta", "decay"),
    [
        (1.0, 0.01, 3.0, 0.0, 0.0),
        (0.125, 1.0, 0.5, -3.0, 2.0),
        (0.5, 0.1, 10.0, 1.0, 1.0),
        (16.0, 0.001, 3.0, 2.0, 0.5),
        (2.0, 10.0, 5.0, -1.0, 0.3),
    ],
)
def test_the_port_is_the_library(
    browser: Any, ratio: float, rho: float, kappa: float, beta: float, decay: float
) -> None:
    browser.open(PAGE)
    given = {"ratio": ratio, "rho": rho, "kappa": kappa, "beta": beta, "decay": decay}
    found = json.loads(browser.evaluate(f"JSON.stringify(theory.state({json.dumps(given)}))"))
    spectrum = Spectrum(np.arange(1.0, 201.0) ** -decay)
    C = 1.0 / (rho * spectrum.trace)
    state = state_of_fit(200 * ratio, spectrum, C=C, link=Logit(kappa, beta))
    assert found["converged"]
    for name in SHARED:
        assert found[name] == pytest.approx(getattr(state, name), abs=1e-3), name
    assert found["df"] == pytest.approx(state.degrees_of_freedom, rel=1e-3)


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1100, True)])
def test_the_page_works_alone(browser: Any, width: int, dark: bool) -> None:
    seen = browser.open(PAGE, width=width, dark=dark)
    assert browser.logged() == []
    assert {Path(each).name for each in browser.requested()} <= {
        *("explore.html", "fixed_point.js", "explore.js"),
    }
    assert seen["overflow"] <= 0, "the page scrolls sideways"
    sliders = "[...document.querySelectorAll('input')]"
    assert browser.evaluate(f"{sliders}.every(each => each.labels.length === 1)")
    before = browser.evaluate("document.getElementById('sentence').textContent")
    assert "With 200 labels of 200 features" in before
    browser.evaluate(
        "const s = document.getElementById('ratio'); s.value = 3;"
        "s.dispatchEvent(new Event('input')); 0"
    )
    moved = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    browser.call("Runtime.evaluate", expression=moved, awaitPromise=True)
    after = browser.evaluate("document.getElementById('sentence').textContent")
    assert "With 1600 labels of 200 features" in after
    titles = "[...document.querySelectorAll('svg title')].every(each => each.textContent)"
    assert browser.evaluate(titles)
