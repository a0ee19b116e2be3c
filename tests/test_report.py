"""What the report says, that it says it first, and that nothing from the data becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from markupsafe import Markup
from scipy.special import expit

from angcal import report
from angcal.metrics import (
    expected_calibration_error,
    hosmer_lemeshow_test,
    kernel_calibration_test,
    multiclass_log_loss,
    spiegelhalter_test,
    top_label_ece,
)
from angcal.report import comparison, examine, make_report, page, pictures, summary, verdict
from angcal.report.comparison import (
    ANGCAL,
    CV_TEMPERATURE,
    DEFAULT,
    UNCALIBRATED,
    compare,
    fold_count,
    penalties_in_folds,
)
from angcal.report.figures import diagnose
from angcal.report.findings import Origin
from angcal.report.narrative import in_plain_words, next_steps
from angcal.report.page import class_rows, environment
from angcal.report.performance import share
from angcal.report.svg import THEME
from angcal.report.verdict import headline
from angcal.tables.errors import clean

VOID = {"meta", "link", "br", "hr", "input"}
HOSTILE = "<script>alert(1)</script>"
STYLE = Path(report.__file__).with_name("report.css").read_text(encoding="utf-8")
SECTIONS = [
    "Verdict",
    "What to do next",
    "Discrimination",
    "Calibration",
    "Decisions",
    "More labels",
    "The classes",
    "Row by row",
    "Weights that matter",
    "The data",
    "Comparison",
    "For statisticians",
    "Checklist",
    "Words",
    "How to cite",
]
NASTY = '"><img src=x onerror=alert(2)>&amp;$x$'


class Outline(HTMLParser):
    """Elements, ids, headings and text of a page; complains about wrong nesting."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.elements, self.ids, self.headings, self.words = [], [], [], []
        self.open = []

    def handle_starttag(self, name, attributes):
        attributes = dict(attributes)
        self.elements.append((name, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if "id" in dict(attributes):
            self.ids.append(dict(attributes)["id"])

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append((int(self.open[-1][1]), data))

    def named(self, name):
        return [attributes for element, attributes in self.elements if element == name]


def outline(html):
    parser = Outline()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser


def table(n=90, d=6, seed=0, names=None, signal=2.0, telling=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    w[telling:] *= telling is None
    y = rng.random(n) < expit(signal * X @ w / np.linalg.norm(w))
    frame = pd.DataFrame(X, columns=names or [f"x{j}" for j in range(d)])
    return frame, np.where(y, "yes", "no")


def with_verdict(found, changed):
    """The findings with another verdict."""
    return replace(found, fit=replace(found.fit, verdict=changed))


@pytest.fixture(scope="module")
def found():
    features, y = table(120, 40)
    return examine(features, y, repeats=1, target="outcome")


@pytest.fixture(scope="module")
def html(found):
    return page(found)


@pytest.fixture(scope="module")
def parsed(html):
    return outline(html)


# -- the page ----------------------------------------------------------------------------------


def test_verdict_comes_first(found, parsed):
    assert parsed.headings[0] == (1, "Calibration report")
    assert parsed.headings[1] == (2, "Verdict")
    text = "".join(parsed.words)
    first = [verdict(found)[0], *verdict(found)[1:2], *in_plain_words(found)]
    places = [text.index(sentence) for sentence in first]
    assert places == sorted(places)
    assert places[-1] < text.index("What to do next")
    for sentence in verdict(found):
        assert sentence in text[text.index("In the words of angcal fit") :]


def test_sections_are_all_there(parsed):
    assert [text for level, text in parsed.headings if level == 2] == SECTIONS


def test_headings_are_ordered_and_the_language_is_told(parsed):
    levels = [level for level, _ in parsed.headings]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert parsed.named("html")[0]["lang"] == "en"


def test_every_figure_is_described(parsed, html):
    pictures = parsed.named("svg")
    assert len(pictures) == 15
    assert len(parsed.named("figcaption")) == len(pictures)
    for picture in pictures:
        assert picture["role"] == "img"
        for reference in picture["aria-labelledby"].split():
            assert reference in parsed.ids
    for described in re.findall(r"<desc[^>]*>([^<]*)</desc>", html):
        assert len(described) > 40


def test_ids_are_unique_and_references_lead_somewhere(parsed, html):
    assert len(parsed.ids) == len(set(parsed.ids))
    wanted = set(re.findall(r"url\(#([^)]+)\)", html)) | set(re.findall(r'href="#([^"]+)"', html))
    assert wanted
    assert wanted <= set(parsed.ids)


def test_page_asks_nothing_of_the_network(parsed, html):
    assert "http:" not in html
    assert "https:" not in html
    assert "@import" not in html
    assert parsed.named("script") == [{}]
    assert not parsed.named("img")
    for _, attributes in parsed.elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href"):
                assert value.startswith(("#", "data:"))
    policy = next(a for a in parsed.named("meta") if a.get("http-equiv"))
    assert policy["content"].startswith("default-src 'none'")
    script = re.search(r"<script>(.*?)</script>", html, flags=re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy["content"], "and no other script runs"


def test_tables_have_captions_and_scopes(parsed):
    assert len(parsed.named("table")) == len(parsed.named("caption")) == 12
    assert {cell["scope"] for cell in parsed.named("th")} == {"col", "row"}


def test_figures_follow_the_theme(html):
    for picture in re.findall(r"<svg.*?</svg>", html, flags=re.S):
        fixed = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", picture))
        assert fixed == set(), "a color that does not change in the dark"
        assert "font-family" not in picture
    for variable in set(THEME.values()):
        assert STYLE.count(f"{variable}:") == 3, "light, dark and print"


def luminance(color):
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1, 2], ids=["light", "dark", "print"])
def test_contrast(theme):
    block = re.findall(r":root \{(.*?)\}", STYLE, flags=re.S)[theme]
    colors = dict(re.findall(r"(--\w+): (#[0-9a-f]{6})", block))
    for ground in ("--paper", "--panel"):
        for text in ("--ink", "--muted", "--link"):
            assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
    for line in ("--blue", "--vermilion", "--green", "--pink", "--amber", "--sky"):
        assert contrast(colors[line], colors["--paper"]) >= 3.0, line


def test_only_a_determined_angle_has_a_tile(found, parsed):
    assert not found.fit.verdict.angle.is_determined
    assert found.fit.model.angle_.method == "loo"
    text = "".join(parsed.words)
    assert "is not determined by labels alone; an unlabeled pool would" in text
    assert "from the true ones (" not in text
    by_pool = replace(
        found.fit.verdict.angle, degrees=30.0, degrees_interval=(20.0, 40.0), method="observable"
    )
    changed = with_verdict(found, replace(found.fit.verdict, angle=by_pool))
    assert "The fitted weights are 30° from the true ones (95% interval 20° to 40°" in page(changed)


def test_paper_is_cited(parsed):
    text = "".join(parsed.words)
    assert "NeurIPS 2025" in text
    assert "Li and P. Sur" in text
    assert "The angcal developers" in text


# -- what a clinician looks for ----------------------------------------------------------------


def test_the_page_of_a_clinician_has_no_symbols(html):
    first, last = html.split('<section aria-labelledby="statisticians">')
    text = "".join(outline(first + last.split("</section>", last.count("<section>") + 1)[-1]).words)
    for word in ("Σ", "Cov(", "unevenness", " F ", "cosine"):
        assert word not in text, word


def test_every_underlined_word_is_explained(parsed):
    links = [a for a in parsed.named("a") if a.get("class") == "term"]
    assert len(links) > 10
    for link in links:
        assert link["href"].removeprefix("#") in parsed.ids
        assert len(link["title"]) > 30


def test_operating_points_are_counts_of_the_rows(found, parsed):
    (one,) = found.fit.performance.classes
    p, positive = found.fit.figures.calibrated[:, 1], found.codes == 1
    for threshold in (0.2, 0.5, 0.8):
        tp, fp, fn, tn = one.at(threshold).counts
        assert (tp, fn) == (np.sum(p[positive] >= threshold), np.sum(p[positive] < threshold))
        assert (fp, tn) == (np.sum(p[~positive] >= threshold), np.sum(p[~positive] < threshold))
        assert one.at(threshold).sensitivity.value == pytest.approx(tp / (tp + fn))
    panel = next(a for _, a in parsed.elements if a.get("id") == "acting")
    (points,) = json.loads(panel["data-classes"])
    assert [point[1] for point in points] == [f"{t}%" for t in range(1, 100)]
    assert points[49][2:6] == [str(count) for count in one.at(0.5).counts]


def test_the_class_that_is_asked_about_may_be_the_first(found):
    features, y = table(120, 40)
    names = [f"P{i}" for i in range(120)]
    origin = Origin("rows.csv", "2026-11-18", positive="no", threshold=0.125, row_names=names)
    asked = examine(features, y, repeats=1, target="outcome", origin=origin)
    (one,), (other,) = asked.fit.performance.classes, found.fit.performance.classes
    assert one.name == "no"
    assert one.auc.value == pytest.approx(other.auc.value)
    assert one.lines["calibrated"].slope == pytest.approx(other.lines["calibrated"].slope)
    text = "".join(outline(page(asked)).words)
    assert "Probability of no" in text
    assert "rows.csv, 2026-11-18" in text
    assert "12.5%" in text
    rows = asked.fit.rows
    assert rows.names[0] == f"P{int(np.argmax(asked.fit.figures.calibrated[:, 0]))}"
    assert np.all((rows.low <= rows.p) & (rows.p <= rows.high))
    assert np.all(np.diff(rows.p) <= 0)


def test_weights_and_their_stability(found):
    largest, coef = found.fit.weights[0], found.fit.model.coef_[0]
    assert largest.column == f"x{int(np.argmax(np.abs(coef)))}"
    assert abs(largest.relative) == pytest.approx(100.0)
    assert largest.toward == ("yes" if largest.relative > 0 else "no")
    for one in found.fit.weights:
        assert one.fits == 5
        assert one.same_sign <= 5
        assert one.low <= one.high
    signs = [np.sign(fold.values[0, int(largest.column[1:])]) for fold in found.comparison.weights]
    assert largest.same_sign == sum(sign == np.sign(largest.relative) for sign in signs)


def test_columns_and_gaps_are_told():
    features, y = table(100, 4)
    features["stage"] = np.resize(["I", "II", "III", None], 100)
    features["same"] = 1
    features.loc[:8, "x2"] = np.nan
    told = examine(features, y, repeats=1)
    notes = {one.name: one for one in told.columns.columns}
    assert notes["x2"].missing == 9
    assert f"{features['x2'].median():.4g}".replace("-", "−") in notes["x2"].treatment
    assert notes["stage"].treatment == "one column for each of 4 levels, missing is a level"
    assert notes["same"].kind == "left out"
    assert told.columns.missing == 9 + 25
    assert told.columns.plain == 3
    assert "stage = II" in {str(name) for fold in told.comparison.weights for name in fold.names}


def test_groups_are_the_units_of_the_report():
    features, y = table(30, 4, seed=2)
    copies = pd.concat([features] * 4, ignore_index=True)
    rng = np.random.default_rng(0)
    copies += 0.01 * rng.normal(size=copies.shape)
    groups = np.tile(np.arange(30), 4)
    told = examine(copies, np.tile(y, 4), repeats=1, groups=groups)
    alone = share(np.tile(y == "yes", 4).astype(float))
    by_groups = share(np.tile(y == "yes", 4).astype(float), groups)
    assert by_groups.high - by_groups.low > 1.8 * (alone.high - alone.low)
    text = "".join(outline(page(told)).words)
    assert "each of the 30 groups of rows is judged by a model that has seen none of it" in text
    assert "a forecast counts every row as a new one" in text
    figures = told.fit.figures
    tests = {row.name: row for row in told.fit.tests}
    assert list(tests) == ["Spiegelhalter's z", "Hosmer–Lemeshow, ten bins", "Kernel test"]
    z = spiegelhalter_test(figures.codes, figures.plain, groups=figures.groups)
    assert tests["Spiegelhalter's z"].plain == z.p_value
    kernel = tests["Kernel test"].plain
    seen = {"n_resamples": 199, "random_state": told.seed, "groups": figures.groups}
    assert kernel == kernel_calibration_test(figures.codes, figures.plain, **seen).p_value


# -- names from the data -----------------------------------------------------------------------


def test_peers_are_told_the_groups(monkeypatch):
    # Four copies of each row and labels of chance: whoever splits copies sees what is not there.
    X, y = table(60, 40, signal=0.0)
    groups = np.random.default_rng(0).permutation(np.repeat(np.arange(60), 4))
    rows, codes = X.iloc[groups].reset_index(drop=True), (y == "yes").astype(int)[groups]
    told = compare(rows, codes, codes, model=None, groups=groups)
    fold = comparison._fold
    monkeypatch.setattr(comparison, "_fold", lambda *given: replace(fold(*given), groups=None))
    untold = compare(rows, codes, codes, model=None, groups=groups)
    for name in ("CalibratedClassifierCV(5)", "Platt, holdout"):
        i = told.names.index(name)
        assert told.values["log-loss"][i] < 0.85
        assert untold.values["log-loss"][i] > 1.0


def test_tests_of_calibration_are_those_of_the_metrics(found, three):
    rows = {row.name: row for row in found.fit.tests}
    figures = found.fit.figures
    z = spiegelhalter_test(figures.codes, figures.plain)
    assert rows["Spiegelhalter's z"].plain == z.p_value
    binned = hosmer_lemeshow_test(figures.codes, figures.calibrated[:, 1])
    assert rows["Hosmer–Lemeshow, ten bins"].calibrated == binned.p_value
    assert all(0.0 < row.calibrated <= 1.0 for row in (*found.fit.tests, *three.fit.tests))
    assert [row.name for row in three.fit.tests] == ["Spiegelhalter's z", "Kernel test"]


def test_names_show_as_text_and_are_no_markup():
    features, _ = table(90, 3, names=[HOSTILE, NASTY, "x"])
    features["</style></title>" + HOSTILE] = "the same"
    y = np.where(features["x"] + features[HOSTILE] > 0, HOSTILE, NASTY)
    y[:12] = np.where(y[:12] == NASTY, HOSTILE, NASTY)
    html = make_report(features, y, repeats=1, title=HOSTILE, target=f"</title>{HOSTILE}")
    page = outline(html)
    assert page.named("script") == [{}]
    assert not page.named("img")
    text = "".join(page.words)
    assert text.count(HOSTILE) >= 5
    assert NASTY in text
    assert "</style></title>" + HOSTILE in text, "the dropped column is named"
    assert page.headings[0] == (1, HOSTILE)


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(60, 4)))
    features.columns = list("abcd")
    names = np.array(["<b>$x$</b>", "&lt;\x01x", "日本"])
    y = names[np.argmax(features.to_numpy()[:, :3], axis=1)]
    return examine(features, y, repeats=1)


def test_classes_in_figures_show_as_text(three):
    html = page(three)
    parsed = outline(html)
    pictures = "".join(re.findall(r"<svg.*?</svg>", html, flags=re.S))
    assert "&lt;b&gt;$x$&lt;/b&gt;" in pictures
    assert "&amp;lt;�x" in pictures
    assert "日本" in pictures
    assert not parsed.named("b")


def test_several_classes_have_the_sections_of_two(three):
    parsed = outline(page(three))
    assert [text for level, text in parsed.headings if level == 2] == SECTIONS
    assert len(parsed.named("svg")) == 17
    assert len(parsed.ids) == len(set(parsed.ids))
    text = "".join(parsed.words)
    assert "Where the model gives its likeliest class 70%" in text
    assert "Which map, and why" in text
    assert "is not determined by labels alone" in text
    for sentence in next_steps(three):
        assert sentence in text


def many_classes(K, per_class=8, d=12, seed=0):
    """Findings on K classes; the last one is never told apart from the first."""
    rng = np.random.default_rng(seed)
    codes = np.tile(np.arange(K), per_class)
    centers = 1.5 * rng.normal(size=(K, d))
    centers[-1] = centers[0]
    X = centers[codes] + rng.normal(size=(len(codes), d))
    names = np.array([f"kind {k:03d}" for k in range(K)])
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]), names[codes]


@pytest.fixture(scope="module")
def forty():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return examine(*many_classes(40), repeats=1)


def test_many_classes_are_cut_and_the_rest_is_counted(forty):
    parsed = outline(page(forty))
    text = "".join(parsed.words)
    assert [text for level, text in parsed.headings if level == 2] == SECTIONS
    assert "The 6 of 40 classes whose calibrated probabilities are farthest" in text
    assert "Of 40 classes these are the 20 whose calibrated probabilities err most." in text
    assert "The other 20 have 8 rows each" in text
    assert "kind 005 (2%) and 34 more" in text
    assert "Collect more rows of kind 000, kind 001" in text
    assert "and 34 more: with fewer than 10 rows" in text
    assert len(class_rows(forty.fit.class_table)) == 20


def test_class_figures_are_those_of_their_rows(forty):
    figures = forty.fit.figures
    for k in (0, 17, 39):
        one = forty.fit.class_table.classes[k]
        own = figures.codes == k
        assert one.rows == own.sum() == 8
        p = figures.calibrated[own]
        assert one.found == np.mean(p.argmax(axis=1) == k)
        assert one.log_loss["calibrated"] == pytest.approx(-np.log(p[:, k]).mean())
        expected = expected_calibration_error(own, figures.plain[:, k])
        assert one.ece["plain"] == pytest.approx(expected)
    outside = [one.outside for one in forty.fit.class_table.worst(40)]
    assert outside == sorted(outside, reverse=True)
    assert summary(forty)["by_class"]["kind 017"]["rows"] == 8


def test_figures_of_many_classes_are_of_the_likeliest(forty):
    plain, side = forty.fit.figures.plain, forty.fit.verdict.plain
    assert side.ece == pytest.approx(top_label_ece(forty.codes, plain))
    assert side.log_loss == pytest.approx(multiclass_log_loss(forty.codes, plain))
    p = forty.comparison.probabilities[ANGCAL][0]
    assert forty.comparison.values["ECE"][0] == pytest.approx(top_label_ece(forty.codes, p))
    assert forty.comparison.names[3] == "temperature, leave-one-out"


def test_training_sets_choose_among_penalties_about_the_chosen_one(forty):
    path, few = forty.fit.model.path_, penalties_in_folds(forty.fit.model)
    assert len(few) == 7
    assert forty.fit.model.C_ in few
    assert set(few) <= set(path.C)


def test_classes_of_two_rows_each_have_two_folds():
    assert fold_count(np.arange(40) % 20) == 2
    assert fold_count([0, 0, 0, 1, 1, 1, 2]) == 1


def test_a_class_of_two_rows_costs_no_folds():
    features, y = many_classes(5, per_class=10)
    y[np.flatnonzero(y == "kind 004")[2:]] = "kind 003"
    assert fold_count(y) == 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = examine(features, y, repeats=1)
    assert told.comparison.folds == 5
    assert told.comparison.has(ANGCAL, DEFAULT)
    assert np.isfinite(told.comparison.probabilities[ANGCAL]).all()


def test_template_escapes_by_default():
    made = environment().from_string('<p title="{{ nasty }}">{{ hostile }}</p>{{ markup }}')
    assert made.render(nasty=NASTY, hostile=HOSTILE + "\x1b", markup=Markup("<b>x</b>")) == (
        '<p title="&#34;&gt;&lt;img src=x onerror=alert(2)&gt;&amp;amp;$x$">'
        "&lt;script&gt;alert(1)&lt;/script&gt;�</p><b>x</b>"
    )


@pytest.mark.parametrize("letter", ["\x00", "\x1b", "\x85", "\ud800", "\ufffe", "\u202e", "\u2066"])
def test_unfit_letters_are_replaced(letter):
    assert clean(f"a{letter}b") == "a�b"


def test_fit_letters_stay():
    assert clean("é 日本 \U0001f600\n\t") == "é 日本 \U0001f600\n\t"


# -- what it says ------------------------------------------------------------------------------


def test_same_seed_same_page(html):
    features, y = table(120, 40)
    assert make_report(features, y, repeats=1, target="outcome") == html


def test_seed_draws_the_folds(found):
    features, y = table(120, 40)
    other = examine(features, y, repeats=1, target="outcome", seed=1)
    assert other.comparison.values["log-loss"][0] != found.comparison.values["log-loss"][0]
    assert other.fit.model.angle_ == found.fit.model.angle_, "the fit itself draws nothing"


def test_settings_of_matplotlib_stay(found):
    before = dict(matplotlib.rcParams)
    pictures.angle(found.fit.model)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("given", "words", "headline", "leaning", "beside_default"),
    [
        (
            (80, 40, 3, None, 6.0, 2),
            "is overconfident",
            "looks overconfident",
            "overconfident",
            "no clear difference",
        ),
        (
            (300, 150, 2, None, 3.0),
            "is underconfident",
            "pays here",
            "underconfident",
            "better",
        ),
        (
            (100, 150, 3, None, 6.0),
            "cannot tell whether",
            "but raises the calibration error",
            "about right",
            "better",
        ),
    ],
)
def test_confidence_is_told(given, words, headline, leaning, beside_default):
    told = examine(*table(*given), repeats=1)
    gain, error = told.comparison.difference(ANGCAL, DEFAULT)
    assert (gain < -2 * error) == (beside_default == "better")
    first, _, confidence, angle, _, gains = verdict(told)
    assert headline in first
    assert words in confidence
    low, high = told.fit.verdict.angle.degrees_interval
    assert f"{low:.0f}° to {high:.0f}°" in angle
    assert beside_default in gains
    assert summary(told)["plain_model_is"] == leaning


def test_no_signal_is_told():
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(80, 5)), columns=list("abcde"))
    # Each row's label is against its own score, so that leave-one-out scores mislead.
    y = np.tile([0, 1], 40)
    told = examine(features, y, repeats=1)
    assert told.fit.model.angle_.cosine == 0
    assert verdict(told)[0] == "These rows show no signal that a linear model could use."
    assert any("No signal found" in message for message in told.complaints)


@pytest.mark.parametrize(
    ("gain", "error", "words"),
    [
        (0.1, 0.02, "Calibration pays here"),
        (-0.1, 0.02, "Plain probabilities did better"),
        (0.1, 0.06, "about as good"),
        (0.001, 0.0, "about as good"),
    ],
)
def test_headline_follows_the_leave_one_out_figures(found, gain, error, words):
    given = found.fit.verdict
    plain = replace(given.plain, log_loss=given.calibrated.log_loss + gain)
    about_right = {"slope": 1.0, "slope_error": 0.1, "ece_gain_error": 1.0}
    changed = replace(given, plain=plain, gain_error=error, **about_right)
    assert words in headline(changed)
    assert verdict(with_verdict(found, changed))[0] == headline(changed)


def test_next_steps_follow_the_verdict(found):
    given = found.fit.verdict

    def steps(gain, ece=0.0, **changes):
        losses = {"log_loss": given.calibrated.log_loss + gain, "ece": given.calibrated.ece + ece}
        plain = replace(given.plain, **losses)
        best = replace(given.plain_at_its_best, log_loss=9.0)
        judged = replace(given, plain=plain, gain_error=0.0, plain_at_its_best=best)
        return next_steps(with_verdict(found, replace(judged, **changes)))

    assert steps(0.1)[0].startswith("Use the calibrated probabilities: angcal fit")
    assert steps(0.0, ece_gain_error=1.0)[0].startswith("Use either")
    worse = steps(0.0, ece=-0.05, ece_gain_error=0.01)
    assert worse[0].startswith("Use the plain probabilities, Logistic")
    assert steps(-0.1)[0].startswith("Use the plain probabilities here: LogisticRegression(C=")
    better = replace(given.plain_at_its_best, C=0.25, log_loss=0.0)
    assert "LogisticRegression(C=0.25) as it is" in steps(0.1, plain_at_its_best=better)[0]
    assert "Look for columns that say more about outcome" in steps(0.1, angle=None)[0]


def test_last_paragraph_follows_the_comparison(found):
    losses = found.comparison.losses.copy()
    index = [found.comparison.names.index(n) for n in (ANGCAL, UNCALIBRATED, DEFAULT)]
    ripple = 0.01 * np.resize([1.0, -1.0], losses.shape[1])
    for shifts, outcomes, words in [
        ((-0.1, 0.0, 0.0), ["better", "better"], "Choosing the penalty pays"),
        ((0.1, 0.0, 0.0), ["worse", "worse"], "default penalty did better"),
        ((0.0, 0.0, 0.1), ["no clear difference", "better"], "Choosing the penalty pays"),
        ((0.0, 0.0, -0.1), ["no clear difference", "worse"], "default penalty did better"),
        ((0.0, 0.0, 0.0), ["no clear difference", "no clear difference"], ""),
    ]:
        for k, i in enumerate(index):
            losses[i] = 0.5 + shifts[k] + k * ripple
        changed = replace(found, comparison=replace(found.comparison, losses=losses.copy()))
        last = verdict(changed)[-1]
        assert re.findall(r"±[^:)]*: ([^)]*)\)", last) == outcomes, shifts
        assert words in last
        assert verdict(changed)[0] == verdict(found)[0], "the headline is that of angcal fit"


def test_refused_classes_degrade_to_a_sentence(monkeypatch):
    def refuse(*arguments, **options):
        raise ValueError("y has 3 classes, which <this> version does not take.")

    monkeypatch.setattr("angcal.report.findings.fit_table", refuse)
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    y = np.argmax(features.to_numpy(), axis=1)
    told = examine(features, y, repeats=1)
    assert told.fit is None
    assert not told.comparison.has(ANGCAL)
    assert told.comparison.names[0] == DEFAULT
    assert told.comparison.names[1] in (CV_TEMPERATURE, "CalibratedClassifierCV(5)")
    parsed = outline(page(told))
    assert "angcal could not calibrate this table." in "".join(parsed.words)
    assert "which <this> version does not take" in "".join(parsed.words)
    assert len(parsed.named("svg")) == 2
    assert len(parsed.ids) == len(set(parsed.ids))


def test_a_pool_for_several_classes_gives_each_its_angle():
    features, _ = table(60, 3)
    y = np.argmax(features.to_numpy(), axis=1)
    found = examine(features, y, pool=table(200, 3, seed=1)[0], repeats=1)
    assert found.fit.model.angle_.method == "observable"
    assert len(found.fit.verdict.angles) == 3


def test_two_classes_are_never_refused_silently(monkeypatch):
    def refuse(*arguments, **options):
        raise ValueError("no")

    monkeypatch.setattr("angcal.report.findings.fit_table", refuse)
    features, y = table(60, 3)
    with pytest.raises(ValueError, match="no"):
        examine(features, y)


def test_rare_class_has_no_comparison():
    features, _ = table(30, 3)
    y = np.r_[np.zeros(29, int), 1]
    told = examine(features, y, repeats=1)
    assert told.comparison is None
    assert told.fit.model.angle_.is_fallback
    text = "".join(outline(page(told)).words)
    assert "The smallest class has one row" in text
    assert "There is none: the smaller class has 1 rows" in text
    assert "There is no forecast: A plan needs three labels of each class" in text
    assert "Every row gets the prevalence" in text, "the warning is shown"


def test_comparison_is_out_of_fold(found):
    compared = found.comparison
    truth = np.eye(2)[found.codes]
    p = compared.probabilities[ANGCAL][0]
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    losses = -np.log(np.sum(p * truth, axis=1))
    assert compared.values["log-loss"][0] == pytest.approx(losses.mean())
    assert compared.errors["log-loss"][0] == pytest.approx(losses.std() / np.sqrt(len(losses)))
    assert compared.values["Brier"][0] == pytest.approx(np.mean((p[:, 1] - found.codes) ** 2))
    assert compared.difference(ANGCAL, ANGCAL) == (0.0, 0.0)
    assert len(compared.names) == 6


def test_summary_has_the_numbers(found):
    told = summary(found)
    assert told["rows"] == 120
    assert told["angle"]["cosine"] == found.fit.model.angle_.cosine
    assert told["classes"] == dict(zip(found.classes, found.counts, strict=True))
    first = told["comparison"][0]
    assert first["method"] == ANGCAL
    assert first["log_loss"] == found.comparison.values["log-loss"][0]


def test_summary_of_several_classes_has_their_price(three):
    assert summary(three)["comparison"][0]["fits"] == "1 path of 7 penalties"
    assert summary(three)["map"] == three.fit.model.calibration_.method


def test_pool_and_dropped_columns_are_told():
    features, y = table(80, 4)
    pool, _ = table(200, 4, seed=9)
    features["constant"] = 1.0
    pool["constant"] = 1.0
    told = examine(features, y, pool=pool, repeats=1)
    assert "200 rows without labels" in verdict(told)[1]
    assert [name for name, _ in told.dropped] == ["constant"]
    assert told.fit.model.scale_.source == "pool"


def test_progress_counts_folds():
    features, _ = table(60, 3)
    y = np.where(np.arange(60) < 3, "rare", "common")  # three folds, as many as rare rows
    calls = []
    examine(features, y, repeats=2, progress=lambda *call: calls.append(call))
    assert calls[0] == (0, 1, "fitting")
    assert calls[1:] == [(done, 6, "cross-validating") for done in range(7)]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 60, "one class only"),
        (["a", "b", None] * 20, "missing in 20 rows"),
        (["a", 1, 2] * 20, "mixes labels"),
        (["a", "b"] * 20, "features has 60 rows and y 40"),
    ],
)
def test_bad_labels_get_a_sentence(y, message):
    features, _ = table(60, 3)
    with pytest.raises(ValueError, match=message):
        make_report(features, np.array(y, dtype=object), target="label")


# -- diagnostics -------------------------------------------------------------------------------


def test_shape_of_scores_is_judged(found):
    class Observed:
        unevenness = 0.1
        leverages = np.ones(1000)
        calibration_scores = np.random.default_rng(0).normal(size=1000)

    assert diagnose(Observed()).is_gaussian
    Observed.calibration_scores = np.random.default_rng(0).exponential(size=1000)
    skewed = diagnose(Observed())
    assert "skewed to the right" in skewed.shape
    assert skewed.skewness == pytest.approx(2.0, abs=0.5)
    Observed.calibration_scores = np.random.default_rng(0).choice([-1.0, 1.0], 1000)
    assert "two-humped" in diagnose(Observed()).shape
    assert skewed.top_share == pytest.approx(0.05)
    Observed.unevenness = 2.0
    assert "much more than others" in diagnose(Observed()).evenness
