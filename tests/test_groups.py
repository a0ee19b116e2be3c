"""Rows that belong together are left out together: against refits, and in every estimator."""

import warnings

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    ScoreCalibratedClassifier,
)
from angcal.angle import ROWS_DEPEND
from angcal.estimators.repeats import copies
from angcal.leverages.groups import Blocks, Groups, groups_of, leave_groups_out
from angcal.links.multiclass import Softmax
from angcal.notices import AngleWarning, RepeatedRowsWarning
from angcal.observables import count_shifts, group_count_shifts, observe, with_shifts
from angcal.sklearn_problems import read_fits


def _draw(n, d, K=2, size=5, seed=0, shared=1.0):
    """Rows of groups of one size, in any order, that share part of their features."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(n // size), size))
    X = rng.normal(size=(n, d)) + shared * rng.normal(size=(n // size, d))[groups]
    X /= np.sqrt(1.0 + shared**2)
    W = 2.0 * rng.normal(size=(d, K)) / np.sqrt(d)
    return X, np.argmax(X @ W + rng.gumbel(size=(n, K)), axis=1), groups


def _model(C=0.01):
    return LogisticRegression(C=C, tol=1e-9, max_iter=5_000)


def _observed(model, X, y, groups):
    fit = read_fits(model.fit(X, y), X, y.astype(float), np.ones(len(y)))[0]
    return fit, observe(fit, None if groups is None else groups_of(groups))


def _refitted(X, y, groups, some, C):
    """Scores of the rows of some groups under fits without them, by brute force."""
    rows = np.isin(groups, some)
    K = len(np.unique(y))
    found = np.empty((len(y), K) if K > 2 else len(y))
    for group in some:
        own = groups == group
        found[own] = _model(C).fit(X[~own], y[~own]).decision_function(X[own])
    return rows, found[rows]


def _off(found, exact):
    """Root mean square error as a share of the scores' spread; softmax sees differences alone."""
    if found.ndim == 2:
        found, exact = (v - v.mean(axis=1, keepdims=True) for v in (found, exact))
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.var(exact)))


# -- scores against refits ---------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize(("n", "d"), [(200, 100), (160, 300)])
@pytest.mark.parametrize("size", [2, 5, 20])
def test_scores_of_two_classes_are_those_of_refits(n, d, size, storage):
    X, y, groups = _draw(n, d, size=size)
    if storage == "sparse":
        X = sparse.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    _, found = _observed(_model(), X, y, groups)
    rows, exact = _refitted(X, y, groups, range(6), 0.01)
    assert _off(found.loo_scores[rows], exact) < 0.01
    _, alone = _observed(_model(), X, y, None)
    assert _off(alone.loo_scores[rows], exact) > 0.1


@pytest.mark.parametrize(("n", "d"), [(200, 100), (120, 200)])
@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("size", [2, 5, 20])
def test_rounds_follow_curvatures_that_change(n, d, K, size):
    X, y, groups = _draw(n, d, K, size)
    fit, found = _observed(_model(1.0), X, y, groups)
    rows, exact = _refitted(X, y, groups, range(6), 1.0)
    assert _off(found.loo_scores[rows], exact) < 0.01
    if K == 2 and size == 20:
        known, given = fit.hessian.engine, (fit.curvatures, fit.residuals, 0.0)
        moves, _ = leave_groups_out(known, groups_of(groups), *given)
        assert _off((fit.scores - moves.all)[rows], exact) > 0.01  # one step would not do


def test_groups_of_many_sizes_follow_their_curvatures_too():
    """Of a size there are few, and one of them may need rounds where the next size needs none."""
    X, y, _ = _draw(300, 100, shared=0.0)
    rng = np.random.default_rng(5)
    groups = rng.permutation(np.repeat(np.arange(300), rng.integers(2, 12, 300))[:300])
    _, found = _observed(_model(1.0), X, y, groups)
    rows, exact = _refitted(X, y, groups, np.unique(groups), 1.0)
    assert _off(found.loo_scores[rows], exact) < 0.01


def test_weights_alone_move_as_in_a_refit():
    X, y, groups = _draw(200, 100, size=20)
    fit, found = _observed(_model(1.0), X, y, groups)
    own = groups == 3
    other = _model(1.0).fit(X[~own], y[~own])
    # Slopes and intercept decouple about the mean of the rows, weighted by their curvature.
    center = (fit.curvatures @ X) / fit.curvatures.sum()
    exact = (X[own] - center) @ other.coef_[0] + center @ fit.coef + fit.intercept
    assert _off(found.calibration_scores[own], exact) < 0.05


@pytest.mark.parametrize("size", [2, 5, 20])
def test_scores_of_four_classes_are_nearly_those_of_refits(size):
    """Each class is a problem of its own, which is an approximation: 2 % instead of 1 %."""
    X, y, groups = _draw(200, 100, K=4, size=size)
    _, found = _observed(_model(), X, y, groups)
    rows, exact = _refitted(X, y, groups, range(6), 0.01)
    assert _off(found.loo_scores[rows], exact) < 0.02


def test_groups_of_one_row_are_leaving_one_out():
    X, y, _ = _draw(80, 40)
    for classes in (y, _draw(80, 40, K=3)[1]):
        _, alone = _observed(_model(), X, classes, None)
        _, single = _observed(_model(), X, classes, np.arange(80)[::-1])
        np.testing.assert_allclose(single.loo_scores, alone.loo_scores, rtol=1e-8, atol=1e-10)
        scale = np.abs(alone.calibration_scores).max()
        np.testing.assert_allclose(
            single.calibration_scores, alone.calibration_scores, atol=1e-8 * scale
        )


class _Given(Blocks):
    """Lines that are at hand; ``columns`` decides on which side a group is left out."""

    def __init__(self, W, columns=None):
        self.W, self._columns = W, W.shape[1] if columns is None else columns

    @property
    def columns(self):
        return self._columns

    def lines(self, rows):
        return self.W[rows]


def test_moves_are_a_block_solve():
    """A(I − DA)⁻¹ψ and its part without the intercept, for groups of several sizes."""
    rng = np.random.default_rng(1)
    W, D, psi = rng.normal(size=(12, 4)) * 0.4, rng.uniform(0, 0.3, 12), rng.normal(size=12)
    D[3] = 0.0
    codes = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 1, 0])
    found, h = leave_groups_out(_Given(W), Groups(codes), D, psi, 0.05)
    for group in range(4):
        S = codes == group
        A = W[S] @ W[S].T
        x = np.linalg.solve(np.eye(S.sum()) - D[S][:, None] * A, psi[S])
        np.testing.assert_allclose(found.all[S], A @ x, rtol=1e-10)
        np.testing.assert_allclose(found.slopes[S], A @ x - 0.05 * x.sum(), rtol=1e-10)
        np.testing.assert_allclose(h[S], np.diag(A), rtol=1e-12)
    for columns in (0, 12):  # all groups on the side of the columns, and none
        again, _ = leave_groups_out(_Given(W, columns), Groups(codes), D, psi, 0.05)
        np.testing.assert_allclose(again.all, found.all, rtol=1e-10)
    # Several scores that share the Hessian.
    both, _ = leave_groups_out(
        _Given(W), Groups(codes), D, np.column_stack([psi, -2.0 * psi]), np.array([0.05, 0.1])
    )
    np.testing.assert_allclose(both.all, np.outer(found.all, [1.0, -2.0]), rtol=1e-10)


@pytest.mark.parametrize(("n", "d"), [(400, 100), (300, 400), (1500, 12)])
def test_groups_of_unlike_rows_are_coupled_as_single_rows_are(n, d):
    """Independent rows, called groups: nothing is to change but by chance."""
    X, y, groups = _draw(n, d, size=20, shared=0.0)
    single, together = (_observed(_model(1.0), X, y, g)[1].coupling for g in (None, groups))
    assert together.mean() == pytest.approx(single.mean(), rel=0.25)
    assert stats.spearmanr(single, together).statistic > 0.85


def test_counts_of_a_group_are_given_back_for_all_its_classes():
    codes, weights = np.array([0, 1, 1, 2, 0, 2]), np.array([1.0, 2.0, 1.0, 1.0, 3.0, 1.0])
    alone = group_count_shifts(codes, weights, 3, Groups(np.arange(6)))
    each = with_shifts(np.zeros((6, 3)), codes, count_shifts(codes, weights, 3))
    np.testing.assert_allclose(alone, each)
    # An intercept-only model: its one Newton step without rows 0 and 1, up to a constant.
    together = group_count_shifts(codes, weights, 3, Groups(np.array([0, 0, 1, 2, 3, 4])))
    p = np.bincount(codes, weights) / weights.sum()
    psi = np.array([1.0, 2.0, 0.0]) - 3.0 * p
    step = psi / (p * (weights.sum() - 3.0))
    np.testing.assert_allclose(np.ptp(together[0] - step), 0.0, atol=1e-12)
    np.testing.assert_allclose(together[1], together[0])


# -- estimators --------------------------------------------------------------------------------

MAKERS = {
    "one": lambda: AngularCalibratedClassifier(_model(1.0)),
    "path": lambda: AngularLogisticRegressionCV(Cs=8),
    "penalties": lambda: AngularLogisticRegressionCV(Cs=8, average="penalties"),
    "folds": lambda: AngularLogisticRegressionCV(Cs=8, average="folds"),
    "score": lambda: ScoreCalibratedClassifier(_model(1.0)),
    "heads": lambda: AngularCalibratedClassifier(OneVsRestClassifier(_model(1.0))),
    "hinge": lambda: AngularCalibratedClassifier(LinearSVC(C=0.01)),
    "pipeline": lambda: AngularCalibratedClassifier(make_pipeline(StandardScaler(), _model(1.0))),
}


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("maker", MAKERS)
def test_tripled_rows_are_worth_what_single_ones_are(maker, K):
    """Three copies of each row: as groups they say what the rows say, and else far too much."""
    X, y, _ = _draw(600, 60, K=K, shared=0.0, seed=2)
    train, test = slice(0, 100), slice(100, None)
    tripled, labels = np.repeat(X[train], 3, axis=0), np.repeat(y[train], 3)
    rows = np.repeat(np.arange(100), 3)

    def loss(**given):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MAKERS[maker]().fit(tripled, labels, **given)
        return log_loss(y[test], model.predict_proba(X[test]), labels=np.arange(K))

    single = MAKERS[maker]().fit(X[train], y[train])
    expected = log_loss(y[test], single.predict_proba(X[test]), labels=np.arange(K))
    assert abs(loss(groups=rows) - expected) < 0.06
    assert abs(loss(groups="copies") - expected) < 0.06
    assert loss() > expected + 0.06


@pytest.mark.parametrize("K", [2, 4])
def test_names_of_groups_do_not_matter(K):
    X, y, groups = _draw(200, 20, K=K)
    names = np.array([f"patient {value}" for value in groups], dtype=object)
    for make in (MAKERS["one"], MAKERS["path"]):
        first, second = (make().fit(X, y, groups=g) for g in (groups * 7 - 3, names))
        np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X), rtol=1e-9)
        assert first.observables_.groups.count == 40


def test_leave_one_out_figures_are_those_of_new_groups():
    """Random effects of groups: the printed log-loss is that of rows of groups not seen."""
    gaps, naive = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(240), 5)
        X = (rng.normal(size=(1200, 40)) + 2.0 * rng.normal(size=(240, 40))[groups]) / np.sqrt(5.0)
        effect = 2.0 * rng.normal(size=240)[groups]
        y = (rng.random(1200) < 1.0 / (1.0 + np.exp(-2.0 * X[:, :4].sum(1) - effect))).astype(int)
        train, test = groups < 30, groups >= 30
        model = AngularCalibratedClassifier(_model(0.1))
        for kept, found in (({"groups": groups[train]}, gaps), ({}, naive)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X[train], y[train], **kept)
            judged = log_loss(y[test], model.predict_proba(X[test]))
            found.append(log_loss(y[train], model.loo_proba_) - judged)
    error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    assert abs(np.mean(gaps)) < 3.0 * error
    assert np.mean(naive) < np.mean(gaps) - 3.0 * error


def test_standard_errors_are_those_of_groups():
    X, y, groups = _draw(60, 20, seed=3)
    model = AngularLogisticRegressionCV(Cs=[0.1, 1.0])
    copied = np.repeat(groups, 4), np.repeat(y, 4), np.repeat(X, 4, axis=0)
    alone = model.fit(X, y, groups=groups).path_.log_loss_se
    # Four copies of everything know no more, and C per row is four times as weak.
    model = AngularLogisticRegressionCV(Cs=[0.025, 0.25])
    again = model.fit(copied[2], copied[1], groups=copied[0]).path_.log_loss_se
    np.testing.assert_allclose(again, alone, rtol=0.1)


# -- what is refused ---------------------------------------------------------------------------


def test_copies_are_named_in_the_warning():
    X, y, _ = _draw(100, 60)
    with pytest.warns(RepeatedRowsWarning, match="groups='copies'"):
        AngularCalibratedClassifier(_model(1.0)).fit(np.repeat(X, 2, 0), np.repeat(y, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRowsWarning)
        model = AngularCalibratedClassifier(_model(1.0))
        model.fit(np.repeat(X, 2, 0), np.repeat(y, 2), groups="copies")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(100), "one value only"),
        (np.arange(99), "99 values and y 100"),
        ("patients", "must be one value for each row, or 'copies'"),
        (np.where(np.arange(100) < 3, np.nan, 1.0), "3 missing values"),
        (np.array([None, "a"] * 50, dtype=object), "50 missing values"),
    ],
)
@pytest.mark.parametrize("maker", ["one", "path", "score"])
def test_bad_groups_get_a_sentence(maker, groups, message):
    X, y, _ = _draw(100, 20)
    with pytest.raises(ValueError, match=message):
        MAKERS[maker]().fit(X, y, groups=groups)


def test_rows_without_weight_leave_their_groups():
    X, y, groups = _draw(100, 20)
    weights = np.where(np.arange(100) < 20, 0.0, 1.0)
    model = MAKERS["one"]().fit(X, y, sample_weight=weights, groups=groups)
    same = MAKERS["one"]().fit(X[20:], y[20:], groups=groups[20:])
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), rtol=1e-6)


def test_a_holdout_keeps_groups_whole():
    X, y, groups = _draw(200, 20)
    model = ScoreCalibratedClassifier(_model(), scores="holdout", random_state=0)
    training = model._training(X, y, None, {}, groups)
    train, held = model._split(training)
    assert not set(groups[train]) & set(groups[held])
    assert len(train) + len(held) == 200
    assert 0.2 < len(held) / 200 < 0.4
    p = model.fit(X, y, groups=groups).predict_proba(X)
    assert np.all(np.isfinite(p))
    with pytest.raises(ValueError, match="cannot be split"):
        model.fit(X, y, groups=y)  # a class for each group


def test_folds_keep_groups_whole_or_say_why_not():
    X, y, _ = _draw(60, 10)
    order = np.argsort(y)
    with pytest.raises(ValueError, match="average='folds' leaves out whole groups"):
        MAKERS["folds"]().fit(X[order], y[order], groups=(np.arange(60) > y.tolist().count(0)) * 1)


@pytest.mark.parametrize("times", [2, 5, 50])
def test_oversampled_positives_are_noticed(times):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 50))
    y = (rng.random(1500) < 1.0 / (1.0 + np.exp(6.0 - 2.0 * X[:, :2].sum(1)))).astype(int)
    rows = np.concatenate([np.arange(1500), np.repeat(np.flatnonzero(y), times - 1)])
    with pytest.warns(RepeatedRowsWarning):
        AngularCalibratedClassifier(_model(1.0)).fit(X[rows], y[rows])


def test_rows_of_few_values_are_no_copies():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, size=(300, 3)).astype(float)
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(-2.0 * (X.sum(1) - 1.5)))).astype(int)
    assert len(np.unique(copies(X))) == 8  # every row has many equals
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRowsWarning)
        AngularCalibratedClassifier(_model(1.0)).fit(X, y)


def test_design_effect_of_equal_rows_is_their_number():
    rng = np.random.default_rng(4)
    groups, own = groups_of(np.repeat(np.arange(400), 5)), rng.normal(size=400)
    even = np.ones(2000)
    assert groups.design_effect(np.repeat(own, 5), even) == pytest.approx(5.0)
    # Independent rows: 1, up to a chance of √(2·4/400/5).
    assert groups.design_effect(rng.normal(size=2000), even) == pytest.approx(1.0, abs=0.2)
    assert groups.design_effect(np.zeros(2000), even) == 1.0


# -- the angle ---------------------------------------------------------------------------------


def _copied(seed, single=80, times=5, d=80):
    """Copies of rows whose labels follow one direction."""
    rng = np.random.default_rng([18, seed])
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(single, d))
    y = (rng.random(single) < 1.0 / (1.0 + np.exp(-3.0 * X @ w))).astype(int)
    return w, np.repeat(X, times, axis=0), np.repeat(y, times), np.repeat(np.arange(single), times)


@pytest.mark.parametrize("given", ["covariance", "pool", "link"])
def test_intervals_of_the_angle_hold_it_where_rows_are_copies(given):
    """95 % of 40 draws, within three standard errors of 3.4 %; as if independent: below half."""
    held = []
    for seed in range(40):
        w, X, y, names = _copied(seed)
        options = {
            "covariance": {"covariance": np.eye(80)},
            "pool": {"pool": np.random.default_rng(seed).normal(size=(400, 80))},
            "link": {"link": Logit(3.0)},
        }[given]
        clf = AngularCalibratedClassifier(_model(0.2), **options).fit(X, y, groups=names)
        true = float(clf.coef_[0] @ w / np.linalg.norm(clf.coef_))
        held.append(clf.angle_.interval[0] <= true <= clf.angle_.interval[1])
        assert clf.angle_.method == "loo"
    assert np.mean(held) > 0.95 - 3 * 0.034


@pytest.mark.parametrize("K", [2, 3])
def test_no_observable_angle_of_rows_that_depend(K):
    X, y, groups = _draw(200, 20, K=K)
    given = {"covariance": np.eye(20)}
    found = AngularCalibratedClassifier(_model(0.1), **given).fit(X, y, groups=groups)
    assert found.angle_.method == "loo"
    assert ROWS_DEPEND in found.angle_.reason
    with pytest.warns(AngleWarning, match="rows of a group are not.*fit one row of each group"):
        AngularCalibratedClassifier(_model(0.1), angle="observable", **given).fit(
            X, y, groups=groups
        )
    # Groups of one row are independent.
    alone = AngularCalibratedClassifier(_model(0.1), **given).fit(X, y, groups=np.arange(200))
    assert alone.angle_.method == "observable"


@pytest.mark.parametrize("K", [2, 3])
def test_a_known_link_knows_no_more_from_copies(K):
    X, y, _ = _draw(200, 20, K=K, shared=0.0)
    link = Logit(2.0) if K == 2 else Softmax(3, covariance=4.0 * np.eye(3))
    errors = []
    for times in (1, 4):
        clf = AngularCalibratedClassifier(_model(0.4 / times), link=link)
        rows = np.repeat(np.arange(200), times)
        clf.fit(X[rows], y[rows], groups=rows if times > 1 else None)
        errors.append(np.mean(np.diag(np.atleast_2d(clf.angle_.standard_error))))
    assert errors[1] == pytest.approx(errors[0], rel=0.1)


def test_cosines_of_a_path_are_known_no_better_from_copies():
    X, y, _ = _draw(200, 20, shared=0.0)
    ends, couplings = [], []
    for times in (1, 4):
        rows = np.repeat(np.arange(200), times)
        model = AngularLogisticRegressionCV(Cs=np.array([0.1, 1.0]) / times)
        model.fit(X[rows], y[rows], groups=rows if times > 1 else None)
        ends.append(model.path_.cosine_interval)
        couplings.append(model.observables_.coupling.sum())
    np.testing.assert_allclose(ends[1], ends[0], atol=0.01)
    np.testing.assert_allclose(couplings[1], couplings[0], rtol=1e-6)


@pytest.mark.parametrize("maker", ["one", "path"])
@pytest.mark.parametrize("K", [2, 3])
def test_groups_that_tear_copies_apart_are_noticed(maker, K):
    X, y, _ = _draw(100, 60, K=K)
    rows = np.concatenate([np.arange(100), np.arange(50)])
    with pytest.warns(RepeatedRowsWarning, match="100 of 150 rows .* in other groups"):
        MAKERS[maker]().fit(X[rows], y[rows], groups=np.arange(150) // 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRowsWarning)
        MAKERS[maker]().fit(X[rows], y[rows], groups=rows // 2)
