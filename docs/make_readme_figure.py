"""Draw ``overconfidence.png`` and ``.svg``, the problem in one picture.

Run from anywhere: ``python docs/make_readme_figure.py``. n = 1000 labels, d = 2000 features,
P(y = 1 | x) = sigmoid(3 w*ᵀx + 1), and two logistic regressions, one per row:

- ``paper``: ridge λ = 0.5 and no intercept. This one is *not* overconfident: its scores have the
  right spread, and what is wrong is the intercept it lacks.
- ``weak``: ridge λ = 0.01 with an intercept. This one is overconfident.

``--only paper`` or ``--only weak`` draws one row.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, Logit
from angcal.displays import STYLES, ReliabilityDisplay
from angcal.metrics import expected_calibration_error
from angcal.simulation import simulate

N, D, N_TEST, SEED = 1000, 2000, 20_000, 0
FOLDER = Path(__file__).resolve().parent
ANGULAR, PLAIN = STYLES[0], STYLES[1]
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Setting:
    """One logistic regression: (1/n) Σ loss + λ‖w‖²/(2d), with or without an intercept."""

    ridge: float
    intercept: bool

    def model(self) -> LogisticRegression:
        """The same objective in scikit-learn's terms."""
        C = D / (N * self.ridge)
        return LogisticRegression(C=C, fit_intercept=self.intercept, tol=1e-8, max_iter=10_000)

    def __str__(self) -> str:
        return f"ridge λ = {self.ridge:g}, {'' if self.intercept else 'no '}intercept"


SETTINGS = {
    "paper": Setting(ridge=0.5, intercept=False),
    "weak": Setting(ridge=0.01, intercept=True),
}


def draw(settings: list[Setting]) -> Figure:
    """Left: reliability of the plain and the calibrated fit. Right: their curves and the truth."""
    data = simulate(N, D, link=Logit(scale=3.0, offset=1.0), random_state=SEED)
    X, y = data.sample(N_TEST, random_state=SEED)
    figure = Figure(figsize=(8.0, 0.2 + 4.0 * len(settings)), layout="constrained")
    figure.get_layout_engine().set(wspace=0.07, hspace=0.06)
    panels = figure.subplots(len(settings), 2, squeeze=False)
    for (left, right), setting in zip(panels, settings, strict=True):
        model = AngularCalibratedClassifier(setting.model()).fit(data.X, data.y)
        scores = X @ model.coef_[0] + model.intercept_[0]
        _reliability(left, y, expit(scores), model.predict_proba(X)[:, 1])
        _curves(right, data, model, scores)
        for ax in (left, right):
            ax.set_title(str(setting), fontsize=10)
    for ax, letter in zip(panels.flat, "abcd", strict=False):
        ax.set_title(letter, loc="left", fontweight="bold")
    return figure


def _reliability(ax: Any, y: Any, plain: Any, angular: Any) -> None:
    for p, name, (color, marker, dash) in (
        (plain, "logistic regression", PLAIN),
        (angular, "with angcal", ANGULAR),
    ):
        display = ReliabilityDisplay.from_predictions(
            y,
            p,
            name=f"{name}, ECE {expected_calibration_error(y, p):.3f}",
            ax=ax,
            color=color,
            marker=marker,
            linestyle=dash,
        )
        for said, happened in zip(
            display.curve.mean_predicted, display.curve.observed, strict=True
        ):
            print(f"{name}: says {said:.0%}, happens {happened:.0%}")
    ax.set(xticks=TICKS, yticks=TICKS)
    ax.legend(loc="upper left", frameon=False, fontsize=8.5)


def _curves(ax: Any, data: Any, model: Any, test_scores: Any) -> None:
    """P(y = 1) against the score, over the range of all but 0.2 % of the test scores."""
    low, high = np.quantile(test_scores, [0.001, 0.999])
    scores = np.linspace(low, high, 201)
    truth = data.calibrated_curve(scores, model.coef_[0], model.intercept_[0])
    ax.plot(
        scores,
        expit(scores),
        color=PLAIN[0],
        linestyle=PLAIN[2],
        label="logistic regression",
    )
    ax.plot(
        scores, truth, color="0.72", linewidth=5, solid_capstyle="butt", zorder=1, label="truth"
    )
    ax.plot(
        scores,
        model.curve_.predict(scores),
        color=ANGULAR[0],
        label="with angcal",
    )
    ax.set(xlim=(low, high), ylim=(0, 1), yticks=TICKS)
    ax.set(xlabel="Fitted score", ylabel="Probability of y = 1")
    ax.set_box_aspect(1)
    ax.legend(loc="upper left", frameon=False, fontsize=8.5)


def save(figure: Figure) -> None:
    """Write both files under other names first, then rename them."""
    for suffix, metadata in ((".png", None), (".svg", {"Date": None})):
        target = FOLDER / f"overconfidence{suffix}"
        unfinished = target.with_name(f".{target.name}.unfinished")
        try:
            figure.savefig(unfinished, format=suffix[1:], dpi=200, metadata=metadata)
            if suffix == ".png":
                # A palette of 128 colors is not seen in a line drawing and halves the file.
                with Image.open(unfinished) as image:
                    small = image.convert("RGB").quantize(128, dither=Image.Dither.NONE)
                small.save(unfinished, format="png", optimize=True)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
        print(f"{target} {target.stat().st_size // 1000} kB")


def main() -> None:
    """Write the picture next to this file."""
    parser = argparse.ArgumentParser(description="Draw the README's figure.")
    parser.add_argument("--only", choices=sorted(SETTINGS), help="draw one row")
    only = parser.parse_args().only
    settings = list(SETTINGS.values()) if only is None else [SETTINGS[only]]
    # With fixed ids and no date the same picture is the same file.
    with mpl.rc_context({"svg.hashsalt": "angcal", "font.size": 10}):
        save(draw(settings))


if __name__ == "__main__":
    main()
