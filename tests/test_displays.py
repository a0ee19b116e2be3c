"""What the reliability diagram draws, and that it leaves matplotlib's state alone."""

from __future__ import annotations

import builtins
import sys

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from angcal.displays import STYLES, ClasswiseReliabilityDisplay, ReliabilityDisplay
from angcal.displays.reliability import outside_band, worst_first
from angcal.metrics import reliability_curve


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return Figure().subplots()


def predictions(n=800, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return (rng.random(n) < p).astype(int), p


def test_line_and_band_are_the_curve(ax):
    y, p = predictions()
    weight = np.random.default_rng(1).random(y.size)
    display = ReliabilityDisplay.from_predictions(
        y, p, n_bins=8, strategy="quantile", sample_weight=weight, name="model", ax=ax
    )
    curve = reliability_curve(y, p, n_bins=8, strategy="quantile", sample_weight=weight)
    np.testing.assert_array_equal(display.line_.get_xdata(), curve.mean_predicted)
    np.testing.assert_array_equal(display.line_.get_ydata(), curve.observed)
    vertices = display.band_.get_paths()[0].vertices[:, 1]
    assert vertices.min() == pytest.approx(curve.lower.min())
    assert vertices.max() == pytest.approx(curve.upper.max())
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_axes_are_a_unit_square_with_a_diagonal(ax):
    ReliabilityDisplay.from_predictions(*predictions(), ax=ax)
    assert ax.get_xlim() == (0.0, 1.0)
    assert ax.get_ylim() == (0.0, 1.0)
    assert ax.get_aspect() == 1.0
    diagonal = ax.lines[0]
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    assert ax.get_xlabel() == "Mean predicted probability"
    assert ax.get_ylabel() == "Observed frequency"


def test_curves_share_axes_and_differ_in_color_marker_and_dash(ax):
    displays = [
        ReliabilityDisplay.from_predictions(*predictions(seed=seed), name=f"m{seed}", ax=ax)
        for seed in range(3)
    ]
    lines = [display.line_ for display in displays]
    assert len({line.get_color() for line in lines}) == 3
    assert len({line.get_marker() for line in lines}) == 3
    assert len({line.get_linestyle() for line in lines}) == 3
    assert len(ax.lines) == 4, "one diagonal for three curves"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["perfect", "m0", "m1", "m2"]
    shades = {tuple(display.band_.get_facecolor()[0][:3]) for display in displays}
    assert len(shades) == 3


def test_styles_are_distinct():
    for column in zip(*STYLES, strict=True):
        assert len(set(column)) == len(STYLES)


def test_options(ax):
    display = ReliabilityDisplay.from_predictions(
        *predictions(), ax=ax, band=False, color="red", marker="x"
    )
    assert display.band_ is None
    assert display.histogram_ax_ is None
    assert display.line_.get_color() == "red"
    assert display.line_.get_marker() == "x"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["perfect"]


def test_histogram_lies_below_and_is_shared(ax):
    y, p = predictions()
    first = ReliabilityDisplay.from_predictions(y, p, ax=ax, histogram=True)
    second = ReliabilityDisplay.from_predictions(
        y, p**2, ax=ax, histogram=True, sample_weight=np.full(y.size, 3.0)
    )
    below = first.histogram_ax_
    assert below is second.histogram_ax_
    assert len(below.patches) == 2
    for stairs in below.patches:
        assert stairs.get_data().values.sum() == pytest.approx(1.0)
    ax.figure.canvas.draw()
    assert below.get_position().y1 < ax.get_position().y0
    assert below.get_xlabel() == "Mean predicted probability"
    assert ax.get_xlabel() == ""
    with pytest.raises(ValueError, match="needs y_prob"):
        ReliabilityDisplay(first.curve).plot(ax, histogram=True)


@pytest.mark.parametrize("histogram", [False, True])
def test_own_figure_shows_every_label(histogram):
    display = ReliabilityDisplay.from_predictions(*predictions(), histogram=histogram)
    display.figure_.canvas.draw()
    box = display.ax_.get_tightbbox()
    if histogram:
        box = box.union([box, display.histogram_ax_.get_tightbbox()])
    width, height = display.figure_.canvas.get_width_height()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= width
    assert box.y1 <= height


def test_global_state_is_untouched(ax):
    before = dict(matplotlib.rcParams)
    ReliabilityDisplay.from_predictions(*predictions(), ax=ax, histogram=True)
    assert plt.get_fignums() == []
    display = ReliabilityDisplay.from_predictions(*predictions(), histogram=True)
    assert plt.get_fignums() == [display.figure_.number]
    assert dict(matplotlib.rcParams) == before


def test_replot_draws_the_same_curve_elsewhere(ax):
    display = ReliabilityDisplay.from_predictions(*predictions(), ax=ax, name="old")
    other = Figure().subplots()
    assert display.plot(other, name="new") is display
    assert display.ax_ is other
    assert display.line_.get_label() == "new"
    assert len(other.lines) == 2


def test_from_estimator_maps_labels_to_classes(ax):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    y = np.where(rng.random(400) < 1 / (1 + np.exp(-X[:, 0])), "yes", "no")
    model = LogisticRegression().fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, n_bins=5, ax=ax)
    curve = reliability_curve(y == "yes", model.predict_proba(X)[:, 1], n_bins=5)
    np.testing.assert_array_equal(display.line_.get_ydata(), curve.observed)
    assert display.line_.get_label() == "LogisticRegression"
    named = ReliabilityDisplay.from_estimator(model, X, y, name="lr", ax=ax)
    assert named.line_.get_label() == "lr"
    with pytest.raises(ValueError, match=r"'maybe'.* is none of classes=\['no', 'yes'\]"):
        ReliabilityDisplay.from_estimator(model, X[:1], ["maybe"], ax=ax)


def test_from_estimator_names_unfit_estimators(ax):
    X = np.arange(6.0)[:, None]
    ridge = RidgeClassifier().fit(X, [0, 0, 0, 1, 1, 1])
    with pytest.raises(TypeError, match="RidgeClassifier has no predict_proba"):
        ReliabilityDisplay.from_estimator(ridge, X, [0, 0, 0, 1, 1, 1], ax=ax)


def hundred_classes(n=3000, K=100, seed=0):
    """Labels and probabilities of K classes; those of the last five are far too large."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(n, K))
    P = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    logits[:, -5:] += 3.0
    told = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return y, P, told


def test_of_many_classes_the_likeliest_is_drawn(ax):
    y, P, _ = hundred_classes()
    display = ReliabilityDisplay.from_predictions(y, P, n_bins=10, ax=ax, histogram=True)
    curve = reliability_curve(P.argmax(axis=1) == y, P.max(axis=1), n_bins=10)
    np.testing.assert_array_equal(display.line_.get_ydata(), curve.observed)
    assert ax.get_ylabel() == "Share of rows where it is right"
    assert display.histogram_ax_.get_xlabel() == "Mean probability of the likeliest class"
    assert len(ax.get_legend().get_texts()) == 1


def test_two_columns_are_two_classes(ax):
    y, p = predictions()
    names = np.array(["no", "yes"])[y]
    both = np.column_stack([1.0 - p, p])
    display = ReliabilityDisplay.from_predictions(names, both, n_bins=5, ax=ax)
    np.testing.assert_array_equal(
        display.line_.get_ydata(), reliability_curve(y, p, n_bins=5).observed
    )
    assert ax.get_xlabel() == "Mean predicted probability"


def test_many_classes_from_an_estimator(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.array(["ant", "bee", "cow"])[X[:, :3].argmax(axis=1)]
    model = LogisticRegression().fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, n_bins=5, ax=ax)
    P = model.predict_proba(X)
    hits = model.predict(X) == y
    curve = reliability_curve(hits, P.max(axis=1), n_bins=5)
    np.testing.assert_array_equal(display.line_.get_ydata(), curve.observed)


def test_the_worst_of_many_classes_are_drawn():
    y, P, told = hundred_classes()
    display = ClasswiseReliabilityDisplay.from_predictions(y, told, n_bins=5)
    assert len(display.axes_) == 12
    assert set(display.classes[:5]) == {95, 96, 97, 98, 99}
    assert "12 of 100 classes" in display.figure_.get_suptitle()
    few = ClasswiseReliabilityDisplay.from_predictions(y, told, most=3, n_bins=5)
    assert few.classes == display.classes[:3]
    with pytest.raises(ValueError, match="most=0 must be at least 1"):
        ClasswiseReliabilityDisplay.from_predictions(y, told, most=0)
    with pytest.raises(ValueError, match=r"y_true holds .*, which is none of the 100 classes"):
        ReliabilityDisplay.from_predictions(y - 1, P, classes=np.arange(100))


def test_distance_from_the_band():
    inside = reliability_curve([0, 1] * 50, [0.5] * 100, n_bins=1)
    assert outside_band(inside) == 0.0
    far = reliability_curve([1] * 100, [0.5] * 100, n_bins=1)
    assert outside_band(far) == pytest.approx(1.0 - far.upper[0])
    assert worst_first([inside, far]) == [1, 0]


def test_missing_matplotlib_is_explained(monkeypatch):
    original = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install 'angcal\[plot\]'"):
        ReliabilityDisplay.from_predictions(*predictions())
