"""The report in a real browser: nothing logged, nothing requested, every figure in sight.

Chromium is driven by its DevTools protocol through a pair of pipes. Without a Chromium these tests
are skipped.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from angcal.report import make_report

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell")
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)
PATIENCE = 60.0
ROOT = Path(__file__).resolve().parents[1]
# The npm package, in the repository or where ANGCAL_AXE says.
AXES = (Path(os.environ.get("ANGCAL_AXE", "-")), ROOT / "node_modules/axe-core/axe.min.js")
AXE = next((path for path in AXES if path.is_file()), None)
HOSTILE = "<script>document.title = 'taken over'</script>"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

MEASURE = """
(() => {
  const boxes = [...document.querySelectorAll('svg.drawing')].map(svg => {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(text => {
      const box = text.getBoundingClientRect();
      return {text: text.textContent, left: box.left - frame.left, right: frame.right - box.right,
              top: box.top - frame.top, bottom: frame.bottom - box.bottom,
              width: box.width, color: getComputedStyle(text).fill};
    });
    return {label: svg.querySelector('title').textContent, width: frame.width,
            height: frame.height, texts};
  });
  const root = document.documentElement;
  return JSON.stringify({boxes, title: document.title, overflow: root.scrollWidth - innerWidth,
                         paper: getComputedStyle(document.body).backgroundColor,
                         ink: getComputedStyle(document.body).color});
})()
"""


class Browser:
    """A headless Chromium with one page; events are kept as they come."""

    def __init__(self, folder):
        to_read, write = os.pipe()
        read, to_write = os.pipe()
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        # The protocol wants file descriptors 3 and 4; a shell can put them there.
        command = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, "bash", CHROMIUM, *options],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.incoming, self.outgoing = read, write
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.outgoing, json.dumps(message).encode() + b"\0")
        answer = self.wait(lambda event: event.get("id") == self.number)
        assert "error" not in answer, answer
        return answer["result"]

    def wait(self, wanted):
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self.buffer:
                line, self.buffer = self.buffer.split(b"\0", 1)
                event = json.loads(line)
                self.events.append(event)
                if wanted(event):
                    return event
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.incoming], [], [], left)[0]:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self.incoming, 1 << 20)
            if not data:
                raise EOFError("Chromium has ended")
            self.buffer += data

    def open(self, path, *, width=1100, height=900, dark=False):
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        self.wait(lambda event: event.get("method") == "Page.loadEventFired")
        return json.loads(self.evaluate(MEASURE))

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression)["result"]["value"]

    def logged(self):
        noisy = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in noisy]

    def requested(self):
        sent = (e for e in self.events if e.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def print_pdf(self, path):
        data = self.call("Page.printToPDF", preferCSSPageSize=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except (EOFError, OSError, TimeoutError):
            self.process.kill()
        self.process.wait(timeout=PATIENCE)
        os.close(self.incoming)
        os.close(self.outgoing)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module", params=[2, 25], ids=["two classes", "many classes"])
def report(request, tmp_path_factory):
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(150, 20)), columns=[f"x{j}" for j in range(20)])
    if request.param == 2:
        positive = rng.random(150) < expit(2 * features["x0"] + features["x1"])
        y = np.where(positive, HOSTILE, "no")
    else:
        codes = np.arange(150) % request.param
        y = np.array([HOSTILE, *(f"a class with a long name, {k}" for k in range(1, 25))])[codes]
        features += 1.5 * rng.normal(size=(request.param, 20))[codes]
    features[HOSTILE] = 1.0
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(make_report(features, y, repeats=1, title=HOSTILE), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_page_loads_whole(browser, report, width, dark):
    seen = browser.open(report, width=width, dark=dark)
    assert browser.logged() == []
    assert set(browser.requested()) <= {report.as_uri(), "data:,"}
    assert len(seen["boxes"]) in (15, 20)
    for box in seen["boxes"]:
        if box["width"] == 0:
            continue  # folded, or of a class that is not chosen
        assert box["width"] > 200, box["label"]
        assert box["height"] > 100, box["label"]
    assert seen["overflow"] <= 0, "the page scrolls sideways"
    assert seen["title"] == HOSTILE, "the column's script did not run"
    dark_paper = seen["paper"] == "rgb(22, 23, 26)"
    assert dark_paper == dark


def test_no_figure_text_is_cut_or_hidden(browser, report):
    for dark in (False, True):
        seen = browser.open(report, width=390, dark=dark)
        for box in seen["boxes"]:
            assert box["texts"], box["label"]
            for text in box["texts"] if box["width"] else ():
                where = (box["label"], text)
                assert text["width"] > 0 or not text["text"].strip(), where
                assert min(text["left"], text["right"], text["top"], text["bottom"]) > -6, where
                assert text["color"] == seen["ink"], where


def test_page_is_light(report):
    assert report.stat().st_size < 1_500_000


def test_slider_moves_the_matrix_the_rates_and_the_line(browser, report):
    browser.open(report)
    assert browser.evaluate("document.querySelector('#threshold').offsetWidth") > 100
    read = """JSON.stringify([...document.querySelectorAll('#acting td[data-cell]')]
              .map(cell => cell.textContent).concat(
              document.querySelector('[data-decision="0"] [data-part=line] path')
              .getAttribute('d')))"""
    points = json.loads(browser.evaluate("document.getElementById('acting').dataset.classes"))
    seen = []
    for place in (9, 89):
        browser.evaluate(f"""(() => {{
            const slider = document.getElementById('threshold');
            slider.value = {place};
            slider.dispatchEvent(new Event('input'));
            return 0;
        }})()""")
        *cells, line = json.loads(browser.evaluate(read))
        tp, fp, fn, tn, *rates = points[0][place][2:]
        assert cells == [tp, fn, fp, tn, *rates]
        spoken = "document.getElementById('threshold').getAttribute('aria-valuetext')"
        assert browser.evaluate(spoken) == f"{place + 1}%"
        seen.append([float(number) for number in line.split() if number not in "ML"])
    assert seen[0][0] == seen[0][2] < seen[1][0], "an upright line, farther right"


def test_another_class_can_be_chosen(browser, report):
    browser.open(report)
    chosen = browser.evaluate("""(() => {
        const choice = document.getElementById('acted');
        if (!choice) return '';
        choice.value = 2;
        choice.dispatchEvent(new Event('change'));
        return JSON.stringify([choice.selectedOptions[0].textContent,
            document.querySelector('#acting [data-name]').textContent,
            [...document.querySelectorAll('[data-decision]')].map(one => one.hidden)]);
    })()""")
    if chosen:
        wanted, shown, hidden = json.loads(chosen)
        assert wanted == shown
        assert hidden == [True, True, False, True, True, True]


def test_page_is_whole_without_scripts(browser, report):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.events.clear()
        browser.call("Page.navigate", url=report.as_uri())
        browser.wait(lambda event: event.get("method") == "Page.loadEventFired")
        page = browser.call("DOM.getDocument", depth=0)["root"]["nodeId"]

        def box(selector):
            node = browser.call("DOM.querySelector", nodeId=page, selector=selector)["nodeId"]
            return browser.call("DOM.getBoxModel", nodeId=node)["model"]

        assert box("#acting table")["width"] > 200
        assert box("[data-decision] svg")["height"] > 100
        controls = browser.call("DOM.querySelectorAll", nodeId=page, selector=".control")
        for control in controls["nodeIds"]:
            told = browser.call("DOM.getAttributes", nodeId=control)["attributes"]
            assert "hidden" in told, "what needs a script is not shown"
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.skipif(AXE is None, reason="axe-core is missing: npm install --no-save axe-core")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing(browser, report, dark):
    browser.open(report, width=390 if dark else 1100, dark=dark)
    # Folded parts are looked at too.
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; }), 0")
    browser.evaluate(f"{AXE.read_text(encoding='utf-8')};0")
    check = """axe.run().then(found => JSON.stringify(
        found.violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 120))])))"""
    told = browser.call("Runtime.evaluate", expression=check, awaitPromise=True)
    assert json.loads(told["result"]["value"]) == []


def test_page_prints(browser, report, tmp_path):
    browser.open(report, dark=True)
    browser.print_pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
