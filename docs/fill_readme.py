"""Put the table of results and the words of the demo into the README, and draw its pictures.

    python docs/fill_readme.py              # the table, from studies/results
    python docs/fill_readme.py --pictures   # also run the demo, and open a report in Chromium

A block stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; everything else is left alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from angcal.cli import demo
from angcal.files import write_text

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from studies import RESULTS  # noqa: E402
from studies.engine.tables import BLOCK, fill, markdown  # noqa: E402

# The names that readers know, and those of the two benchmarks.
TOOLS = {
    "**`AngularLogisticRegressionCV()`**": "angcal tuned",
    "`LogisticRegressionCV(Cs=20)`": "logistic tuned",
    "**`AngularCalibratedClassifier()`**": "angcal",
    '`CalibratedClassifierCV(method="temperature")`': "CV temperature",
    "`CalibratedClassifierCV()`": "CV sigmoid",
    '`CalibratedClassifierCV(method="isotonic")`': "CV isotonic",
    "`LogisticRegression()`": "logistic",
}
SPLITS, SEED = 5, 0


def rows_of(text: str, header: str) -> dict[str, dict[str, str]]:
    """The rows of the first table below a line, by method and column."""
    lines = text[text.index(header) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| method"))
    cells = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    names, _, *rows = cells
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def results() -> str:
    """Log-losses and ranks of the tools that people use, from the committed benchmarks."""
    two = rows_of((RESULTS / "real" / "ranks.md").read_text("utf-8"), "Mean ranks")
    text = (RESULTS / "multiclass" / "multiclass.md").read_text("utf-8")
    many = rows_of(text, "All methods, mean ranks")

    def cells(rows: dict[str, dict[str, str]], name: str) -> list[str]:
        found = rows.get(name)
        if found is None:
            return ["", "", ""]
        return [found["mean log-loss"], found["log-loss"], found["infinite losses"]]

    lines = [
        [shown, two[name]["fits"], *cells(two, name), *cells(many, name)[:2]]
        for shown, name in TOOLS.items()
    ]
    header = ("", "fits", "log-loss, two classes", f"mean rank of {len(two)}", "labels given p = 0")
    header += ("log-loss, 3 to 100 classes", f"mean rank of {len(many)}")
    return markdown(header, lines) + "\n"


def demo_words(outcomes: demo.Outcomes) -> str:
    """One line for each task of the demo."""
    lines = []
    for name, by_name in outcomes.items():
        told = []
        for method in ("uncalibrated", "CalibratedClassifierCV", "angcal"):
            sure, right, *_ = demo.scores_of(by_name[method]).mean(axis=0)
            told.append(f"{method} {sure:.0%} sure, {right:.0%} right")
        lines.append(f"- {name}: {'; '.join(told)}.\n")
    return "".join(lines)


def clinic() -> tuple[Any, Any]:
    """scikit-learn's tumors, 60 patients, with a few gaps: what the README's report is about."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    rows = np.random.default_rng(3).permutation(len(data.target))[:120]
    features = data.data.iloc[rows].reset_index(drop=True)
    features.loc[:5, "mean texture"] = np.nan
    return features, np.where(data.target.to_numpy()[rows] == 0, "malignant", "benign")


def draw_report(path: Path) -> None:
    """The first screen of a report, as a browser shows it."""
    from angcal.report import examine, page
    from angcal.report.findings import Origin
    from test_report_browser import Browser

    features, y = clinic()
    origin = Origin("tumors.csv", positive="malignant", threshold=0.2)
    found = examine(features, y, title="Tumors", target="diagnosis", origin=origin)
    with tempfile.TemporaryDirectory() as folder:
        html = Path(folder) / "report.html"
        write_text(html, page(found))
        browser = Browser(Path(folder) / "profile")
        try:
            browser.open(html, width=1000, height=1150)
            browser.screenshot(path, whole=False)
        finally:
            browser.close()


def main() -> None:
    """Rewrite the README, under another name first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pictures", action="store_true", help="run the demo and draw all pictures"
    )
    options = parser.parse_args()
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    blocks = {found[2]: found[3] for found in BLOCK.finditer(text)}
    blocks["results"] = results()
    if options.pictures:
        outcomes = demo.run(SPLITS, SEED)
        blocks["demo"] = demo_words(outcomes)
        demo.save(demo.draw(outcomes), ROOT / "docs" / "demo.png")
        draw_report(ROOT / "docs" / "report.png")
    write_text(page, fill(text, lambda name: blocks[name]))


if __name__ == "__main__":
    main()
