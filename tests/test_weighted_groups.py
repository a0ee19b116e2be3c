"""Rows of groups that weigh one together are worth what one row is."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV, Logit
from angcal.leverages.groups import Groups, groups_of, label_effects
from angcal.links.multiclass import Softmax
from angcal.multiclass.posterior import ClassPosterior
from angcal.penalty_path.choice import LooCurves
from angcal.penalty_path.cosines import NODES, CosineEvidence
from angcal.penalty_path.far import Judged, joined
from angcal.score_bins import BinnedScores

pytestmark = pytest.mark.filterwarnings("ignore")

NEW = np.random.default_rng(9).normal(size=(200, 8))


def drawn(n=150, d=8, K=2, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.normal(size=(n, d)), 0.6 * rng.normal(size=(d, K))
    return X, np.argmax(X @ V + rng.gumbel(size=(n, K)), axis=1)


def visits(n, kind, seed=0):
    """(group of each row, its weight): patients that weigh one whatever the number of visits."""
    often = np.full(n, 4)
    if kind == "uneven":
        often = np.random.default_rng(seed).choice([1, 1, 2, 3, 5, 40], n)
    return np.repeat(np.arange(n), often), 1.0 / np.repeat(often, often)


def one(**options):
    return AngularCalibratedClassifier(LogisticRegression(tol=1e-10, max_iter=5000), **options)


def floor_of(model):
    return model.curve_.floor


# -- the design effect -------------------------------------------------------------------------


def test_the_design_effect_of_patients_is_rows_for_each():
    rng = np.random.default_rng(0)
    rows, weights = visits(150, "uneven")
    groups, own = groups_of(rows), rng.normal(size=(150, 2))
    for unit in (1.0, 7.0):
        effect = groups.design_effect(own[rows], unit * weights)
        assert effect == pytest.approx(len(rows) / 150, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_rows_alone_count_as_one_whatever_they_weigh(seed):
    rng = np.random.default_rng(seed)
    weights, residuals = rng.exponential(size=60), rng.normal(size=60)
    assert Groups(np.arange(60)).design_effect(residuals, weights) == 1.0
    assert_allclose(Groups(np.arange(60)).mass_shares(weights), 1.0, rtol=1e-15)


def test_even_weights_leave_the_design_effect_as_it_is():
    """Σ_g(Σr)²/Σr², whatever the one weight is."""
    rng = np.random.default_rng(1)
    groups = groups_of(rng.integers(0, 30, size=200))
    shared = rng.normal(size=30)[groups.codes] + rng.normal(size=200)
    expected = np.sum(groups.sums(shared) ** 2) / np.sum(shared**2)
    assert groups.design_effect(shared, np.ones(200)) == expected
    assert groups.design_effect(shared, np.full(200, 0.3)) == pytest.approx(expected, rel=1e-12)


def test_labels_of_patients_are_worth_as_many_labels_as_patients():
    X, y = drawn()
    rows, weights = visits(150, "uneven")
    found = label_effects(groups_of(rows), X[rows, 0], y[rows].astype(float), weights)
    assert_allclose(found, len(rows) / 150, rtol=1e-12)


# -- estimators --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["even", "uneven"])
@pytest.mark.parametrize("K", [2, 3])
def test_a_patient_is_one_row(K, kind):
    """Intervals were up to four times as wide, and the floor seven times as high."""
    X, y = drawn(K=K)
    rows, weights = visits(150, kind)
    single = one().fit(X, y)
    names = "copies" if kind == "even" else rows
    found = one().fit(X[rows], y[rows], sample_weight=weights, groups=names)
    assert floor_of(found) == pytest.approx(floor_of(single), rel=1e-9)
    # How groups of three classes are left out is an approximation of its own.
    assert_allclose(found.predict_proba(NEW), single.predict_proba(NEW), atol=0.005 * (K - 1))
    widths = [np.ptp(each.predict_interval(NEW), axis=-1).mean() for each in (found, single)]
    assert widths[0] == pytest.approx(widths[1], rel=0.01)
    assert_allclose(found.angle_.interval, single.angle_.interval, atol=0.01)


@pytest.mark.parametrize("kind", ["even", "uneven"])
@pytest.mark.parametrize("K", [2, 3])
def test_a_path_of_patients_is_that_of_single_rows(K, kind):
    X, y = drawn(100, 30 if K == 2 else 10, K=K, seed=2)
    rows, weights = visits(100, kind, seed=2)
    single = AngularLogisticRegressionCV(rarity=0).fit(X, y)
    model = AngularLogisticRegressionCV(rarity=0, Cs=single.Cs_)
    found = model.fit(X[rows], y[rows], sample_weight=weights, groups="copies")
    assert found.C_ == pytest.approx(single.C_)
    assert floor_of(found) == pytest.approx(floor_of(single), rel=1e-9)
    for each in (found, single):
        each.left = each.path_.criterion - each.path_.log_loss - each.path_.sampling_error
    # Losses themselves differ by how groups are left out.
    assert_allclose(found.left - found.left.max(), single.left - single.left.max(), atol=1e-4)
    assert_allclose(found.path_.criterion, single.path_.criterion, atol=2e-3 if K == 2 else 5e-3)
    if K == 2:
        assert_allclose(found.path_.cosine_interval, single.path_.cosine_interval, atol=0.03)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_of_single_rows_change_nothing(K, weighted):
    X, y = drawn(K=K)
    weights = np.random.default_rng(2).uniform(0.2, 3.0, 150) if weighted else None
    names = np.arange(150)[::-1]
    for make in (one, lambda: AngularLogisticRegressionCV(Cs=6)):
        alone = make().fit(X, y, sample_weight=weights)
        found = make().fit(X, y, sample_weight=weights, groups=names)
        assert_allclose(found.predict_proba(NEW), alone.predict_proba(NEW), atol=1e-9)
        assert_allclose(found.predict_interval(NEW), alone.predict_interval(NEW), atol=1e-9)
        assert_allclose(found.loo_proba_, alone.loo_proba_, atol=1e-9)


@pytest.mark.parametrize("kind", ["even", "uneven"])
@pytest.mark.parametrize("K", [2, 3])
def test_a_known_link_knows_of_patients_what_single_rows_tell(K, kind):
    link = Logit(2.0) if K == 2 else Softmax(3, covariance=4.0 * np.eye(3))
    X, y = drawn(K=K)
    rows, weights = visits(150, kind)
    single = one(link=link).fit(X, y)
    found = one(link=link).fit(X[rows], y[rows], sample_weight=weights, groups=rows)
    errors = [np.diag(np.atleast_2d(each.angle_.standard_error)) for each in (found, single)]
    assert_allclose(*errors, rtol=0.05)
    if K == 2:
        assert floor_of(found) == pytest.approx(floor_of(single), rel=1e-6)
        assert found.curve_.scale.center_rows == 150
        widths = [np.ptp(each.predict_interval(NEW), axis=-1).mean() for each in (found, single)]
        assert widths[0] == pytest.approx(widths[1], rel=0.05)


# -- maps of three classes ---------------------------------------------------------------------


def test_labels_of_patients_are_left_out_as_those_of_single_rows():
    """Counts of classes stay: what takes the row's place weighs what the row does."""
    rng = np.random.default_rng(3)
    scores, (_, y) = rng.normal(size=(60, 3)), drawn(60, K=3)
    rows, weights = visits(60, "uneven")
    alone = ClassPosterior(scores, y, np.ones(60), 0.0)
    found = ClassPosterior(scores[rows], y[rows], weights, 0.0)
    expected = alone.left_out_steps(Groups(np.arange(60)))
    assert_allclose(found.left_out_steps(Groups(rows)), expected[rows], atol=1e-8)


@pytest.mark.parametrize("size", [5, 20])
@pytest.mark.parametrize("K", [2, 3])
def test_the_prevalence_is_that_of_other_groups(K, size):
    """Of a patient's own labels none is in the shares that it is judged by."""
    patients = np.arange(200 // size) % K
    rows = np.repeat(np.arange(len(patients)), size)
    single = one().fit(np.zeros((len(patients), 3)), patients)
    found = one().fit(np.zeros((len(rows), 3)), patients[rows], groups=rows)
    assert_allclose(found.loo_proba_, single.loo_proba_[rows], atol=1e-9)
    assert_allclose(found.predict_proba(np.zeros((1, 3))), single.predict_proba(np.zeros((1, 3))))


# -- the evidence ------------------------------------------------------------------------------


def test_rows_of_which_some_are_copies():
    """A share c of copies, L of each: n(1 − c) + nc/L distinct rows, and the effect that goes."""
    groups, even = groups_of(np.repeat(np.arange(50), 4)), np.ones(200)
    for copied in (0.0, 0.5, 1.0):
        share = groups.distinct_share(1.0 + 3.0 * copied, even)
        assert share == pytest.approx(1.0 - copied + copied / 4.0)
    assert Groups(np.arange(9)).distinct_share(1.0, np.arange(1.0, 10.0)) == 1.0


@pytest.mark.parametrize("copied", [False, True])
def test_random_effects_leave_the_evidence_nearly_as_it_is(copied):
    """Labels that lean on their group's say of slopes what rows say, copies what groups do."""
    rng = np.random.default_rng(5)
    rows, scores = np.repeat(np.arange(60), 5), rng.normal(size=300)
    leaning = 1.5 * rng.normal(size=60)[rows]
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(-2.0 * scores - leaning))).astype(float)
    if copied:
        scores, y = scores[:60][rows], y[:60][rows]
    column = scores[:, None]
    curves = LooCurves(column, column, column, y, np.ones(300), groups_of(rows))
    assert curves.independent_labels(0) < 0.7 * 300
    distinct = curves.distinct_labels(0)
    assert distinct == pytest.approx(60) if copied else distinct > 0.8 * 300


def test_joined_parts_of_a_path_keep_their_design_effects():
    bins = BinnedScores(NODES, np.zeros((2, len(NODES))), np.zeros((2, len(NODES))))
    rest = {each.name: np.zeros(2) for each in fields(Judged) if each.name != "evidence"}
    parts = [
        Judged(**rest, evidence=CosineEvidence(bins, bins, np.ones(2), effects))
        for effects in (np.array([2.0, 3.0]), 1.0)
    ]
    found = joined(parts).evidence
    assert found is not None
    assert_allclose(found.effects, [2.0, 3.0, 1.0, 1.0])
