"""Code blocks of the README and the docs: how they are found, run, and their output compared."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import Logit
from angcal.simulation import simulate

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?",
    flags=re.DOTALL | re.MULTILINE,
)


def pages():
    """README and every page of the site."""
    found = sorted(path for path in (ROOT / "docs").rglob("*.md") if "build" not in path.parts)
    return [ROOT / "README.md", *found]


def python_blocks(page):
    """The code of a page's Python blocks, in order."""
    return [match["code"] for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def prepared():
    """What a reader has at hand: data, a pool, a fitted model and its weights."""
    data = simulate(120, 30, link=Logit(3.0, 1.0), random_state=0)
    X_test, y_test = data.sample(200, random_state=4)
    fitted = LogisticRegression(tol=1e-8, max_iter=1000).fit(data.X, data.y)
    words = np.array(["genes", "cells", "stars", "orbits", "proteins", "planets"])
    topics = np.where(data.y > 0, "biology", "astronomy")
    said = np.where(np.add.outer(data.y, [1, 1, 0, 0, 1, 0]) != 1, words, "the")
    texts = [f"{' '.join(line)} of note {i}" for i, line in enumerate(said)]
    return {
        "texts": texts[:80],
        "topics": topics[:80],
        "unlabeled_texts": texts[80:],
        "X": data.X,
        "y": data.y,
        "X_new": data.sample(10, random_state=1)[0],
        "X_test": X_test,
        "y_test": y_test,
        "X_unlabeled": data.pool(300, random_state=2),
        "X_raw": data.pool(80, random_state=3),
        "patient": np.arange(len(data.y)) // 4,
        "fitted": fitted,
        "model": LogisticRegression(),
        "Sigma": data.covariance.matrix(),
        "coef": fitted.coef_[0],
        "intercept": float(fitted.intercept_[0]),
    }


def executed(page):
    """(namespace, [(block, printed)]): all blocks of a page, run in one namespace.

    A traceback names page and block.
    """
    namespace, results = prepared(), []
    for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")), start=1):
        code = compile(match["code"], f"{page.name}, block {number}", "exec")
        with redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        results.append((match, printed.getvalue()))
    return namespace, results


def filled(page):
    """The text of a page with the output of each block as it is now."""
    text, shift = page.read_text(encoding="utf-8"), 0
    for match, printed in executed(page)[1]:
        if match["output"] is None:
            continue
        start, end = (position + shift for position in match.span("output"))
        text = text[:start] + printed + text[end:]
        shift += len(printed) - (end - start)
    return text


def look_up(path):
    """The object that a dotted path names, through modules, classes and dataclass fields."""
    parts = path.split(".")
    for depth in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        for name in parts[depth:]:
            fields = getattr(found, "__dataclass_fields__", {})
            found = fields[name] if name in fields else getattr(found, name)
        return found
    raise ModuleNotFoundError(path)
