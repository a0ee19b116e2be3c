"""What the displays of angles, curves, penalties and comparisons draw."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV, Logit
from angcal.displays import (
    AngleDisplay,
    AngleMatrixDisplay,
    ClasswiseReliabilityDisplay,
    ComparisonDisplay,
    PenaltyPathDisplay,
    ReliabilityDisplay,
    SmoothedLinkDisplay,
)
from angcal.metrics import (
    expected_calibration_error,
    log_loss,
    multiclass_log_loss,
    reliability_curve,
    top_label_ece,
)
from angcal.metrics.calibration import ece_and_error
from angcal.metrics.scores import both_classes, mean_and_error, row_losses
from angcal.simulation import simulate


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


@pytest.fixture(scope="module")
def data():
    return simulate(150, 40, link=Logit(scale=3), random_state=0)


@pytest.fixture(scope="module")
def tuned(data):
    return AngularLogisticRegressionCV(Cs=6).fit(data.X, data.y)


# -- the angle ---------------------------------------------------------------------------------


def test_wedge_spans_the_interval_in_degrees(ax):
    display = AngleDisplay(np.cos(np.radians(40)), np.cos(np.radians([55, 20]))).plot(ax)
    assert display.degrees == pytest.approx(40)
    assert (display.wedge_.theta1, display.wedge_.theta2) == pytest.approx((20, 55))
    x, y = display.true_.get_xydata()[1]
    assert np.degrees(np.arctan2(y, x)) == pytest.approx(40)
    assert display.fitted_.get_ydata().tolist() == [0.0, 0.0]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[2] == "95 % interval, 20° to 55°"
    assert labels[1] == "true weights, about 40° (cosine 0.77) away"


def test_obtuse_angles_get_a_half_circle(ax):
    AngleDisplay(0.1, (-0.8, 0.9)).plot(ax)
    assert ax.get_xlim()[0] < -1.0
    sharp = Figure().subplots()
    AngleDisplay(0.9, (0.8, 0.95)).plot(sharp)
    assert sharp.get_xlim()[0] > -0.2


def test_angle_without_interval(ax):
    display = AngleDisplay(0.5).plot(ax)
    assert display.wedge_ is None
    assert display.degree_interval is None
    assert len(ax.get_legend().get_texts()) == 2


def test_angle_from_estimator_and_pipeline(tuned, data, ax):
    display = AngleDisplay.from_estimator(tuned, ax=ax)
    assert display.cosine == tuned.angle_.cosine
    assert display.interval == tuned.angle_.interval
    assert not display.determined
    low, high = display.degree_interval
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [
        "fitted weights",
        f"true weights, 95 % interval, {low:.0f}° to {high:.0f}°",
        f"posterior mean, {display.degrees:.0f}° (cosine {display.cosine:.2f})",
    ]
    piped = make_pipeline(StandardScaler(), AngularCalibratedClassifier()).fit(data.X, data.y)
    assert AngleDisplay.from_estimator(piped, ax=ax).cosine == piped[-1].angle_.cosine


def test_an_angle_that_is_given_is_an_arrow(data, ax):
    known = AngularCalibratedClassifier(link=Logit(scale=3)).fit(data.X, data.y)
    assert known.angle_.method == "loo"
    assert AngleDisplay.from_estimator(known, ax=Figure().subplots()).determined
    given = AngularCalibratedClassifier(angle=0.5).fit(data.X, data.y)
    display = AngleDisplay.from_estimator(given, ax=ax)
    assert display.determined
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[1] == "true weights, about 60° (cosine 0.50) away"


def test_angle_refuses_what_is_none(ax):
    with pytest.raises(ValueError, match=r"1\.2 is meant as a cosine"):
        AngleDisplay(0.5, (0.1, 1.2))
    with pytest.raises(TypeError, match="needs angle_, which LogisticRegression does not have"):
        AngleDisplay.from_estimator(LogisticRegression(), ax=ax)


# -- the curve ---------------------------------------------------------------------------------


def test_smoothed_link_is_the_fitted_curve(tuned, ax):
    display = SmoothedLinkDisplay.from_estimator(tuned, ax=ax)
    scores = tuned.observables_.calibration_scores
    grid = display.line_.get_xdata()
    assert (grid[0], grid[-1]) == (scores.min(), scores.max())
    np.testing.assert_array_equal(display.line_.get_ydata(), tuned.curve_.predict(grid))
    np.testing.assert_allclose(display.raw_line_.get_ydata(), expit(grid))
    (bars,) = display.histogram_ax_.patches
    assert bars.get_data().values.sum() == pytest.approx(1.0)


def test_smoothed_link_over_given_scores(tuned, ax):
    display = SmoothedLinkDisplay.from_estimator(tuned, [-2.0, 3.0], ax=ax, histogram=False)
    assert ax.get_xlim() == (-2.0, 3.0)
    assert display.histogram_ax_ is None
    flat = SmoothedLinkDisplay.from_estimator(tuned, [1.0, 1.0], ax=Figure().subplots())
    assert flat.ax_.get_xlim() == (0.0, 2.0)


# -- the penalties -----------------------------------------------------------------------------


def test_path_panels_show_the_path(tuned, ax):
    display = PenaltyPathDisplay.from_estimator(tuned, ax=ax)
    path = tuned.path_
    drawn = [line.get_ydata() for line in display.lines_]
    for values, expected in zip(drawn, (path.log_loss, path.ece, path.cosine), strict=True):
        np.testing.assert_array_equal(values, expected)
    for panel in display.axes_:
        assert panel.get_xscale() == "log"
        chosen = [line for line in panel.lines if str(line.get_label()).startswith("chosen")]
        assert chosen[0].get_xdata()[0] == pytest.approx(tuned.C_)
    assert display.axes_[-1].get_xlabel() == "C, from strong to weak penalty"


def test_path_shows_what_is_asked(tuned, ax):
    display = PenaltyPathDisplay.from_estimator(tuned, ax=[ax], show=["cosine"])
    assert display.axes_ == [ax]
    assert ax.get_ylabel() == "Cosine of the angle"
    with pytest.raises(ValueError, match=r"show=\['brier'\]"):
        PenaltyPathDisplay(tuned.path_).plot(ax, show=["brier"])


def test_runaway_uncalibrated_loss_is_cut(ax):
    C = np.array([0.1, 1.0, 10.0])
    path = SimpleNamespace(
        C=C,
        log_loss=np.array([0.6, 0.5, 0.55]),
        log_loss_se=np.full(3, 0.02),
        uncalibrated_log_loss=np.array([0.6, 0.8, 9.0]),
        index=1,
    )
    PenaltyPathDisplay(path).plot([ax], show=["log_loss"])
    assert ax.get_ylim()[1] < 1.5


def test_path_without_angle_says_so(tuned, ax):
    path = SimpleNamespace(
        C=tuned.path_.C,
        cosine=np.full(6, np.nan),
        cosine_interval=np.full((6, 2), np.nan),
        index=0,
    )
    PenaltyPathDisplay(path).plot([ax], show=["cosine"])
    assert [text.get_text() for text in ax.texts] == ["no angle was found"]


# -- the comparison ----------------------------------------------------------------------------


def labels_and_predictions(n=400, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return (rng.random(n) < p).astype(float), p


def test_comparison_values_are_the_metrics(ax):
    y, p = labels_and_predictions()
    weight = np.random.default_rng(1).random(y.size)
    display = ComparisonDisplay.from_predictions(
        y, {"good": p, "bold": expit(3 * (2 * p - 1))}, sample_weight=weight, n_draws=5, ax=ax
    )
    assert display.values["log-loss"][0] == pytest.approx(log_loss(y, p, sample_weight=weight))
    assert display.values["ECE"][0] == pytest.approx(
        expected_calibration_error(y, p, sample_weight=weight)
    )
    assert display.names == ["good", "bold"]
    left, right = display.axes_
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["good", "bold"]
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["", ""]
    assert (left.get_xlabel(), right.get_xlabel()) == ("log-loss", "ECE")
    assert left.lines[0].get_xdata()[0] == display.values["log-loss"][0]


def test_standard_errors_match_those_over_many_draws():
    found = []
    for seed in range(60):
        y, p = labels_and_predictions(200, seed)
        losses = row_losses(both_classes(p), y.astype(int))
        mean, error = mean_and_error(losses, np.ones(200))
        ece, ece_error = ece_and_error([(y, p)], np.ones(200), n_draws=30)
        found.append((mean, error, ece, ece_error))
    mean, error, ece, ece_error = np.array(found).T
    assert error.mean() == pytest.approx(mean.std(), rel=0.25)
    assert ece_error.mean() == pytest.approx(ece.std(), rel=0.35)


def test_bootstrap_is_the_seed_s(ax):
    y, p = labels_and_predictions()
    first = ece_and_error([(y, p)], np.ones(y.size), n_draws=4, random_state=3)
    assert first == ece_and_error([(y, p)], np.ones(y.size), n_draws=4, random_state=3)
    assert first != ece_and_error([(y, p)], np.ones(y.size), n_draws=4, random_state=4)


def test_comparison_from_estimators(data, ax):
    models = {
        "weak": LogisticRegression(C=10).fit(data.X, data.y),
        "strong": LogisticRegression(C=0.01).fit(data.X, data.y),
    }
    display = ComparisonDisplay.from_estimators(models, data.X, data.y, n_draws=2, ax=ax)
    expected = log_loss(data.y, models["weak"].predict_proba(data.X)[:, 1])
    assert display.values["log-loss"][0] == pytest.approx(expected)


def test_comparison_of_many_classes(ax):
    y, P = three_classes()
    classes = ["ant", "bee", "cow"]
    display = ComparisonDisplay.from_predictions(
        y, {"true": P, "flat": np.full_like(P, 1 / 3)}, classes=classes, n_draws=5, ax=ax
    )
    expected = multiclass_log_loss(y, P, classes=classes)
    assert display.values["log-loss"] == pytest.approx([expected, np.log(3)])
    assert display.values["ECE"][0] == pytest.approx(top_label_ece(y, P, classes=classes))
    model = LogisticRegression().fit(P, y)
    fitted = ComparisonDisplay.from_estimators({"model": model}, P, y, n_draws=2, ax=ax)
    expected = multiclass_log_loss(y, model.predict_proba(P), classes=classes)
    assert fitted.values["log-loss"][0] == pytest.approx(expected)
    other = LogisticRegression().fit(P[y != "cow"], y[y != "cow"])
    with pytest.raises(ValueError, match="b has other classes"):
        ComparisonDisplay.from_estimators({"a": model, "b": other}, P, y, ax=ax)


def test_comparison_names_bad_predictions(ax):
    with pytest.raises(ValueError, match=r"y_probs\['short'\] has 1 entries"):
        ComparisonDisplay.from_predictions([0, 1], {"short": [0.5]}, ax=ax)
    with pytest.raises(ValueError, match="y_probs is empty"):
        ComparisonDisplay.from_predictions([0, 1], {}, ax=ax)


# -- several classes ---------------------------------------------------------------------------


def three_classes(n=300):
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(n, 3))
    P = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(3, p=row) for row in P])
    return np.array(["ant", "bee", "cow"])[y], P


def test_classwise_draws_each_class_against_the_rest(ax):
    y, P = three_classes()
    display = ClasswiseReliabilityDisplay.from_predictions(y, P, n_bins=5, ax=ax)
    assert display.classes == ["ant", "bee", "cow"]
    for k, (panel, part) in enumerate(zip(display.axes_, display.displays, strict=True)):
        curve = reliability_curve(y == display.classes[k], P[:, k], n_bins=5)
        np.testing.assert_array_equal(part.line_.get_ydata(), curve.observed)
        assert panel.get_title() == display.classes[k]
        assert panel.get_legend() is None
    assert [panel.get_ylabel() for panel in display.axes_] == ["Observed frequency", "", ""]


def test_classwise_lays_out_rows_and_columns():
    y, P = three_classes()
    display = ClasswiseReliabilityDisplay.from_predictions(y, P, columns=2, histogram=True)
    assert len(display.figure_.axes) == 4
    assert not display.figure_.axes[3].axison
    assert [part.histogram_ax_ is not None for part in display.displays] == [True] * 3


def test_classwise_from_estimator_and_dollar_signs():
    y, P = three_classes()
    dollars = np.where(y == "ant", "$5-$9", y)
    model = LogisticRegression().fit(P, dollars)
    display = ClasswiseReliabilityDisplay.from_estimator(model, P, dollars)
    display.figure_.canvas.draw()
    assert display.axes_[0].get_title() == "$5-$9"
    assert not display.axes_[0].title.get_parse_math()


def test_classwise_names_bad_matrices(ax):
    y, P = three_classes()
    with pytest.raises(ValueError, match=r"shape \(300,\) but must be \(300, K\)"):
        ClasswiseReliabilityDisplay.from_predictions(y, P[:, 0], ax=ax)
    with pytest.raises(ValueError, match="3 columns for 2 classes"):
        ClasswiseReliabilityDisplay.from_predictions(y, P, classes=["ant", "bee"], ax=ax)
    with pytest.raises(ValueError, match=r"y_true holds .*'ant'"):
        ClasswiseReliabilityDisplay.from_predictions(y, P, classes=["x", "bee", "cow"], ax=ax)


def test_angle_matrix_is_annotated_and_centered(ax):
    matrix = np.array([[0.9, -0.001], [np.nan, -0.85]])
    display = AngleMatrixDisplay.from_matrix(matrix, ["$a", "b$"], ["c", "d"], ax=ax)
    assert [text.get_text() for text in display.texts_] == ["0.90", "0.00", "–", "−0.85"]
    assert display.mesh_.get_clim() == (-1.0, 1.0)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["$a", "b$"]
    ax.figure.canvas.draw()
    middle = display.mesh_.to_rgba(0.0)[:3]
    assert min(middle) > 0.9, "no cosine, no color"
    low, high = display.mesh_.to_rgba([-1.0, 1.0])[:, :3]
    assert np.argmax(low) != np.argmax(high)
    top, bottom = display.texts_[0], display.texts_[3]
    assert top.get_position()[1] < bottom.get_position()[1]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_angle_matrix_text_contrasts_with_its_cell(ax):
    display = AngleMatrixDisplay.from_matrix([[1.0, 0.0]], ax=ax, colorbar=False)
    assert display.colorbar_ is None
    strong, faint = (text.get_color() for text in display.texts_)
    assert (strong, faint) == ("#fefefe", "#0d0d0d")


def angles(cosine, half=0.1):
    """An angle of several classes as a classifier has it."""
    interval = np.clip(np.stack([cosine - half, cosine + half], axis=-1), -1.0, 1.0)
    return SimpleNamespace(cosine=cosine, interval=interval, method="observable", confidence=0.95)


def test_angle_matrix_from_estimator(data, ax):
    cosine = np.array([[0.8, 0.1, 0.0], [0.2, 0.7, 0.1], [0.0, 0.1, 0.6]])
    angle = angles(cosine)
    several = SimpleNamespace(angle_=angle, classes_=np.array(["a", "b", "c"]))
    display = AngleMatrixDisplay.from_estimator(several, ax=ax)
    np.testing.assert_array_equal(display.matrix, cosine)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b", "c"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Fitted weights", "True weights")
    with pytest.raises(TypeError, match=r"draw them with AngleMatrixDisplay"):
        AngleDisplay.from_estimator(several, ax=ax)


def test_many_classes_are_drawn_one_by_one(ax):
    K = 100
    cosine = np.diag(np.linspace(0.3, 0.9, K)[::-1])
    many = SimpleNamespace(angle_=angles(cosine), classes_=np.arange(K))
    display = AngleMatrixDisplay.from_estimator(many, ax=ax)
    assert display.mesh_ is None
    drawn = display.lines_.lines[0].get_xdata()
    assert len(drawn) == 30
    assert np.all(np.diff(drawn) > 0)
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert (names[0], names[-1]) == ("99", "0")
    assert [text.get_text() for text in ax.texts] == ["70 more"]
    twenty = AngleMatrixDisplay(cosine[:20, :20], None, None).plot(Figure().subplots())
    assert len(twenty.lines_.lines[0].get_xdata()) == 20


def test_classes_that_share_an_angle_are_one_line_or_one_wedge(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = np.array([f"class {k}" for k in range(20)])[(X[:, 0] > 0) * 10 + np.arange(400) % 10]
    model = AngularLogisticRegressionCV(Cs=3).fit(X, y)
    matrix = AngleMatrixDisplay.from_estimator(model, ax=ax)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["all 20 classes"]
    assert ax.get_title() == "posterior means; labels leave the angles open"
    one = AngleDisplay.from_estimator(model, ax=Figure().subplots())
    assert not one.determined
    assert one.cosine == pytest.approx(matrix.matrix[0, 0])
    path = PenaltyPathDisplay.from_estimator(model)
    assert [panel.get_ylabel() for panel in path.axes_] == ["Log-loss", "ECE"]
    with pytest.raises(TypeError, match="20 classes have as many scores"):
        SmoothedLinkDisplay.from_estimator(model, ax=ax)


def test_angle_matrix_is_not_for_two_classes(tuned, ax):
    with pytest.raises(TypeError, match=r"draw it with AngleDisplay"):
        AngleMatrixDisplay.from_estimator(tuned, ax=ax)


def test_angle_matrix_names_bad_input(ax):
    with pytest.raises(ValueError, match=r"matrix holds 1\.5"):
        AngleMatrixDisplay.from_matrix([[1.5]], ax=ax)
    with pytest.raises(ValueError, match="row_names has 2 entries but matrix has 1"):
        AngleMatrixDisplay.from_matrix([[0.5]], ["a", "b"], ax=ax)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        AngleMatrixDisplay.from_matrix([0.5, 0.5], ax=ax)


# -- manners -----------------------------------------------------------------------------------


def every_display(tuned, ax=None):
    y, P = three_classes(60)
    return [
        ReliabilityDisplay.from_predictions(y == "ant", P[:, 0], ax=ax),
        AngleDisplay.from_estimator(tuned, ax=ax),
        SmoothedLinkDisplay.from_estimator(tuned, ax=ax),
        PenaltyPathDisplay.from_estimator(tuned, ax=ax),
        ComparisonDisplay.from_predictions(y == "ant", {"a": P[:, 0]}, n_draws=2, ax=ax),
        ClasswiseReliabilityDisplay.from_predictions(y, P, ax=ax),
        AngleMatrixDisplay.from_matrix([[0.3]], ax=ax),
    ]


def test_settings_stay_and_given_axes_open_no_figure(tuned):
    before = dict(matplotlib.rcParams)
    for display in every_display(tuned, Figure().subplots()):
        assert isinstance(display.figure_, Figure)
    assert plt.get_fignums() == []
    assert dict(matplotlib.rcParams) == before


def test_own_figures_keep_all_text_inside(tuned):
    for display in every_display(tuned):
        figure = display.figure_
        figure.canvas.draw()
        width, height = figure.canvas.get_width_height()
        box = figure.get_tightbbox()
        assert box.x0 * figure.dpi >= -1, display
        assert box.y0 * figure.dpi >= -1, display
        assert box.x1 * figure.dpi <= width + 1, display
        assert box.y1 * figure.dpi <= height + 1, display


def test_panels_need_room(tuned, ax):
    with pytest.raises(ValueError, match="ax holds 1 axes but PenaltyPathDisplay draws 3"):
        PenaltyPathDisplay.from_estimator(tuned, ax=[ax])
    loose = Figure().add_axes((0.1, 0.1, 0.8, 0.8))
    with pytest.raises(ValueError, match="divides ax into 3 panels"):
        PenaltyPathDisplay.from_estimator(tuned, ax=loose)
