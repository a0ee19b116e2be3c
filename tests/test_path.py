"""The penalty path: its fits, leave-one-out losses and choice, and the estimator around them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from angcal import (
    AngleWarning,
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logistic,
    Logit,
    Probit,
    Ridge,
    plan,
)
from angcal.angle import loo_angle
from angcal.covariance import score_scale
from angcal.curve import ConstantCurve
from angcal.leverages.many import knots
from angcal.metrics import expected_calibration_error, log_loss
from angcal.observables import honest_scores, observe
from angcal.penalty_path import LooCurves, cosines_under, make_design, observe_path
from angcal.penalty_path.curve_fits import curve_fit
from angcal.penalty_path.leverages import sampling_order
from angcal.problem import LinearFit
from angcal.simulation import simulate

LINK = Logit(3.0, 1.0)
CS = np.geomspace(0.01, 100.0, 5)
# One shape for each way to make the design: eigenbasis of the columns in double and in single
# precision, of the rows, Cholesky factor, X itself.
SHAPES = [(120, 20), (400, 200), (60, 200), (520, 800), (620, 560)]


def data(n=120, d=20, seed=0, **options):
    return simulate(n, d, **{"link": LINK, "random_state": seed, **options})


def positive(classifier, X):
    return classifier.predict_proba(X)[:, 1]


def exact_fit(X, y, C, weights=None, fit_intercept=True):
    """The optimum by scikit-learn, as a LinearFit."""
    # L-BFGS is good to a thousandth on some machines only.
    model = LogisticRegression(
        C=C, tol=1e-10, max_iter=20_000, fit_intercept=fit_intercept, solver="newton-cholesky"
    )
    model.fit(X, y, sample_weight=weights)
    omega = np.ones(len(y)) if weights is None else weights
    labels, penalty = np.asarray(y, dtype=float), Ridge(1.0 / (C * omega.sum()))
    intercept = float(np.ravel(model.intercept_)[0])
    return LinearFit(
        X, labels, omega, model.coef_[0], intercept, Logistic(), penalty, fit_intercept
    )


def coupling(fit):
    """Σ_{j≠i} A_ij²/(r_i r_j)² with A = X̃ĤX̃ᵀ written out."""
    A = fit.hessian.smooth(np.eye(len(fit.labels)))
    r = 1.0 - np.diag(A) * fit.curvatures
    squares = (A / np.outer(r, r)) ** 2
    return squares.sum(axis=1) - np.diag(squares)


def solved(sim, Cs=CS, tol=1e-6, fit_intercept=True):
    labels, weights = sim.y.astype(float), np.ones(len(sim.y))
    design = make_design(sim.X, labels, weights, fit_intercept)
    return design, design.solver(1.0 / Cs).solve(tol)


def loo_curves(design, solution, observed, labels, weights):
    honest = [honest_scores(design.fit_at(solution, c, 1.0), o) for c, o in enumerate(observed)]
    parts = [o.calibration_scores for o in observed], honest, [o.loo_scores for o in observed]
    return LooCurves(*(np.column_stack(part) for part in parts), labels, weights)


# --- the fits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_fit_is_that_of_logistic_regression(shape):
    sim = data(*shape, mean=np.ones(shape[1]))
    design, solution = solved(sim)
    assert solution.converged.all()
    for c, C in enumerate(CS):
        expected = exact_fit(sim.X, sim.y, C)
        w, b = design.restore(solution.coef[:, c], solution.intercepts[c])
        # J is 1/C-strongly convex in w: scikit-learn's own error is at most C·‖∇J‖.
        slack = C * len(sim.y) * np.linalg.norm(np.append(*expected.kkt_residual))
        length = np.linalg.norm(expected.coef)
        assert slack < 1e-3 * length
        assert np.linalg.norm(w - expected.coef) <= 5e-6 * length + slack
        assert expected.moved_to(w, b).distance_to_optimum < 5e-6
        assert_allclose(sim.X @ w + b, solution.scores[:, c], atol=1e-4 * np.ptp(expected.scores))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sparse_rows_have_the_fits_of_dense_ones(fit_intercept):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.random((150, 40)) * (rng.random((150, 40)) < 0.2))
    y = (rng.random(150) < expit(X @ rng.normal(size=40))).astype(float)
    weights = rng.uniform(0.5, 2.0, 150)
    coefs = []
    for rows in (X, X.toarray()):
        design = make_design(rows, y, weights, fit_intercept)
        solution = design.solver(1.0 / CS).solve(1e-7)
        fitted = [solution.problem(c)[:2] for c in range(len(CS))]
        coefs.append(np.array([design.restore(*each)[0] for each in fitted]))
        found = observe_path(design, 1.0 / CS, solution, "exact")
        for c, C in enumerate(CS):
            fit = exact_fit(X.toarray(), y, C, weights, fit_intercept)
            assert_allclose(coefs[-1][c], fit.coef, atol=1e-5 * np.abs(fit.coef).max())
            assert_allclose(found[c].loo_scores, observe(fit).loo_scores, atol=1e-4)
    assert_allclose(coefs[0], coefs[1], atol=1e-5 * np.abs(coefs[0]).max())


def test_a_weaker_tolerance_is_met_and_takes_fewer_passes():
    sim = data(200, 60)
    _, tight = solved(sim, tol=1e-9)
    _, loose = solved(sim, tol=1e-2)
    error = np.linalg.norm(loose.coef - tight.coef, axis=0) / np.linalg.norm(tight.coef, axis=0)
    assert error.max() < 0.05
    assert loose.passes < tight.passes


def test_separable_rows_have_finite_fits_under_weak_penalties():
    sim = data(40, 100)
    Cs = np.array([1.0, 1e3, 1e6])
    design, solution = solved(sim, Cs, tol=1e-4)
    assert solution.converged.all()
    assert ((2 * sim.y - 1)[:, None] * solution.scores[:, 1:] > 0).all()
    for c, C in enumerate(Cs):
        fit = exact_fit(sim.X, sim.y, C)
        moved = fit.moved_to(*design.restore(solution.coef[:, c], solution.intercepts[c]))
        assert moved.distance_to_optimum < 1e-2
        assert moved.objective <= fit.objective * (1 + 1e-3)


def test_distances_are_those_of_the_fit_itself():
    sim = data(150, 30)
    design, rough = solved(sim, tol=0.1)
    distances = design.solver(1.0 / CS).distances(rough)
    for c, C in enumerate(CS):
        fit = exact_fit(sim.X, sim.y, C)
        moved = fit.moved_to(*design.restore(rough.coef[:, c], rough.intercepts[c]))
        assert_allclose(distances[c], moved.distance_to_optimum, rtol=0.1, atol=1e-7)
    finished = design.solver(1.0 / CS).continued(rough, 1e-6)
    assert np.all(design.solver(1.0 / CS).distances(finished) < 1e-4)


# --- leverages and leave-one-out scores -------------------------------------------------------


@pytest.mark.parametrize("shape", [(120, 20), (60, 200)], ids=str)
@pytest.mark.parametrize("method", ["exact", "auto"])
def test_exact_observables_are_those_of_one_fit_at_a_time(shape, method):
    sim = data(*shape, mean=np.ones(shape[1]))
    design, solution = solved(sim, tol=1e-8)
    for found, C in zip(observe_path(design, 1.0 / CS, solution, method), CS, strict=True):
        expected = observe(exact_fit(sim.X, sim.y, C))
        assert_allclose(found.leverages, expected.leverages, rtol=1e-4)
        assert_allclose(found.calibration_scores, expected.calibration_scores, atol=1e-4)
        assert_allclose(found.degrees_of_freedom, expected.degrees_of_freedom, rtol=1e-4)
        assert_allclose(found.intercept_leverage, expected.intercept_leverage, rtol=1e-4)
        assert found.n_features == shape[1]
        # Without the random signs that a larger problem needs: 1 ± √(2/32) of them is noise.
        if method == "auto":
            assert_allclose(found.coupling, coupling(exact_fit(sim.X, sim.y, C)), rtol=1e-3)


@pytest.mark.parametrize("shape", [(500, 200), (520, 800), (620, 560)], ids=str)
def test_sampled_rows_tell_the_leverages_of_all(shape):
    sim = data(*shape)
    design, solution = solved(sim, tol=1e-5)
    sampled = observe_path(design, 1.0 / CS, solution, "randomised")
    exact = observe_path(design, 1.0 / CS, solution, "exact")
    for rough, fine in zip(sampled, exact, strict=True):
        assert rough.side == "randomised"
        assert abs(rough.gamma / fine.gamma - 1.0) < 4.0 * rough.step_error + 1e-3
    for c in (0, 2):
        fit = exact_fit(sim.X, sim.y, CS[c])
        assert_allclose(sampled[c].coupling.sum(), coupling(fit).sum(), rtol=0.2)
    labels, weights = design.labels, design.weights
    curves = [loo_curves(design, solution, found, labels, weights) for found in (sampled, exact)]
    gap = np.abs(curves[0].log_loss - curves[1].log_loss)
    # ρ is allowed an error that moves a loss by half of its own; near the optimum it is far less.
    assert np.all(gap < 0.5 * curves[1].log_loss_se)
    chosen = int(np.argmin(curves[0].log_loss))
    regret = curves[1].log_loss[chosen] - curves[1].log_loss.min()
    assert regret < 0.1 * curves[1].log_loss_se[chosen]


def test_sparse_rows_in_rare_columns_are_sampled_without_their_own_share():
    """One-hot rows: a row is often the only one of its column, whose moment is then all its own."""
    rng = np.random.default_rng(0)
    # A power law by hand: rng.zipf draws other numbers since NumPy 2.1.
    levels = ((1.0 - rng.random((600, 6))) ** (-1.0 / 0.6)).astype(np.int64) % 120
    columns = (levels + 120 * np.arange(6)).ravel()
    X = sparse.csr_array(
        (np.ones(columns.size), columns, np.arange(0, columns.size + 1, 6)), shape=(600, 720)
    )
    y = (rng.random(600) < 0.5).astype(float)
    design = make_design(X, y, np.ones(600), True)
    Cs = np.array([0.01, 1.0, 3.0])
    solution = design.solver(1.0 / Cs).solve(1e-5)
    sampled = observe_path(design, 1.0 / Cs, solution, "randomised")
    exact = observe_path(design, 1.0 / Cs, solution, "exact")
    # A row's own share is the largest under the weakest penalty: left in, it would give 0.989.
    for rough, fine, least in zip(sampled, exact, (0.95, 0.95, 0.99), strict=True):
        assert rough.side == "randomised"
        assert np.corrcoef(rough.loo_steps, fine.loo_steps)[0, 1] > least


def test_uneven_rows_are_factorized_where_sampling_fails():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 150)) * np.exp(1.5 * rng.normal(size=(400, 1)))
    X[:, :75] *= rng.random((400, 1)) < 0.5  # sizes no longer tell the leverages
    y = (rng.random(400) < 0.5).astype(float)
    design = make_design(X, y, np.ones(400), True)
    Cs = np.array([10.0, 1e3])
    solution = design.solver(1.0 / Cs).solve(1e-4)
    found = observe_path(design, 1.0 / Cs, solution, "randomised")
    exact = observe_path(design, 1.0 / Cs, solution, "exact")
    for rough, fine in zip(found, exact, strict=True):
        assert rough.side != "randomised" or abs(rough.gamma / fine.gamma - 1.0) < 0.2


def clustered(n=700, d=640, seed=0):
    """Rows about ten centers, which tell the labels: columns are correlated."""
    rng = np.random.default_rng(seed)
    centers = 2.0 * rng.normal(size=(10, d))
    kind = rng.integers(10, size=n)
    X = centers[kind] + rng.normal(size=(n, d))
    return X, (rng.random(n) < np.where(kind < 5, 0.1, 0.9)).astype(float)


@pytest.mark.parametrize("shape", [(700, 640), (640, 1100)], ids=str)
def test_correlated_columns_get_an_eigenbasis_and_independent_ones_do_not(shape):
    X, y = clustered(*shape)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, len(y))
    rows = make_design(X, y, weights, True).rows
    assert rows.correlated
    centered = X - weights @ X / weights.sum()
    gram = centered @ centered.T
    assert_allclose(rows.X @ rows.X.T, gram, atol=1e-6 * gram.max())
    moments = rows.X.T @ rows.X
    away = moments - np.diag(np.diag(moments))
    assert np.abs(away).max() < 1e-4 * moments.max()
    assert not make_design(data(*shape).X, y, weights, True).rows.correlated


def test_an_eigenbasis_moves_neither_fits_nor_the_end_of_the_grid():
    X, y = clustered()
    weights = np.ones(len(y))
    design = make_design(X, y, weights, True)
    Cs = design.grid(5)
    spread = np.sum((X - X.mean(axis=0)) ** 2)
    p = y.mean()
    typical = np.median(np.sum((X - X.mean(axis=0)) ** 2, axis=0))
    assert_allclose(Cs[0], 1.0 / (p * (1.0 - p) * spread), rtol=1e-6)
    assert_allclose(Cs[-1], 100.0 / (p * (1.0 - p) * typical), rtol=1e-6)
    solution = design.solver(1.0 / Cs).solve(1e-8)
    for c in (0, 2, 4):
        coef, intercept = design.restore(*solution.problem(c)[:2])
        expected = exact_fit(X, y, Cs[c])
        assert_allclose(X @ coef + intercept, expected.scores, atol=1e-4 * np.ptp(expected.scores))


@pytest.mark.parametrize("columns", [1, 30])
@pytest.mark.parametrize("mean", [3.0, 1e2, 1e5])
def test_sparse_columns_far_from_zero_are_fitted_to_the_end(mean, columns):
    """One of mean 100 was off by 0.05 and 30 of them by 2, without a word."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 30)) * (rng.random((300, 30)) < 0.3)
    y = (rng.random(300) < expit(X @ rng.normal(size=30))).astype(int)
    X[:, 0] = rng.normal(size=300)
    shifted = X + mean * X.std(axis=0) * (np.arange(30) < columns)
    clf = AngularLogisticRegressionCV([0.01, 1.0, 10.0], rarity=0.0)
    clf.fit(sparse.csr_array(shifted), y)
    for C, coef in zip(clf.Cs_, clf.coefs_paths_, strict=True):
        assert_allclose(coef, exact_fit(X, y, C).coef, atol=5e-3)
    dense = clone(clf).fit(shifted, y)
    assert_allclose(clf.path_.log_loss, dense.path_.log_loss, atol=1e-3)
    assert_allclose(
        clf.predict_proba(sparse.csr_array(shifted)), dense.predict_proba(shifted), atol=1e-3
    )


def test_other_sparse_columns_stay_as_they_are():
    rng = np.random.default_rng(0)
    X = 1.0 * (rng.random((60, 8)) < 0.4)
    X[:, 0] = rng.normal(size=60)
    X = sparse.csr_array(X)
    design = make_design(X, np.arange(60) % 2.0, np.ones(60), True)
    assert design.rows.center is None
    assert (design.rows.X != X).nnz == 0


@pytest.mark.parametrize("kind", ["Gaussian", "clustered", "sparse"])
def test_penalties_between_knots_are_those_of_a_factorization(kind):
    if kind == "Gaussian":
        sim = data(640, 620)
        X, y = sim.X, sim.y.astype(float)
    else:
        X, y = clustered() if kind == "clustered" else clustered(300, 500)
    if kind == "sparse":
        X = sparse.csr_array(np.where(np.abs(X) > 2.0, X, 0.0))
    design = make_design(X, y, np.ones(len(y)), True)
    strengths = 1.0 / design.grid(20)
    solution = design.solver(strengths).solve(1e-4)
    found = observe_path(design, strengths, solution, "auto")
    exact = observe_path(design, strengths, solution, "exact")
    assert len(knots(strengths)) < 10
    assert (found[10].side == "randomised") == (kind == "Gaussian")
    for rough, fine in zip(found, exact, strict=True):
        ratio = rough.slope_steps / fine.slope_steps
        # Splines are good to a few hundredths; sampled rows say by how much all are off.
        assert abs(np.mean(ratio) - 1.0) < 0.035 + 4.0 * rough.step_error
        assert np.std(ratio) < (0.1 if kind == "Gaussian" else 0.03)
        assert 0.5 < rough.coupling.sum() / fine.coupling.sum() < 2.0


def test_knots_are_evenly_spread_and_close_enough():
    even = np.geomspace(1e4, 1e-2, 20)
    places = knots(even)
    assert list(places[[0, -1]]) == [0, 19]
    assert np.ptp(np.diff(places)) <= 1
    assert np.abs(np.diff(np.log(even[places]))).max() < 1.5 * plan.KNOT_GAP
    # Few penalties, uneven ones and those that are far apart are all computed.
    for strengths in (even[:6], np.append(even[:10], 1e-9), np.geomspace(1e9, 1e-9, 12)):
        assert_array_equal(knots(strengths), np.arange(len(strengths)))


def test_rows_that_decide_are_sampled():
    """A third of small and a third of large rows have residuals; only these may be sampled."""
    X, y = clustered(600, 900)
    design = make_design(X, y, np.ones(len(y)), True)
    strengths = 1.0 / design.grid(4)
    fits = [
        design.fit_at(design.solver(strengths).solve(1e-4), c, float(q))
        for c, q in enumerate(strengths)
    ]
    order = sampling_order(design, fits)
    pull = sum(np.abs(fit.residuals) / np.abs(fit.residuals).sum() for fit in fits)
    assert set(order) == set(np.argsort(-pull)[: len(order)])
    assert len(order) == round(len(y) * plan.DECISIVE_SHARE)


# --- curves and the choice --------------------------------------------------------------------


def test_curves_are_platt_fits():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(80, 3)) * [1.0, 5.0, 0.2] + [0.0, 2.0, 1.0]
    y = (rng.random(80) < expit(scores[:, 0])).astype(float)
    weights = rng.uniform(0.5, 2.0, 80)
    fit = curve_fit(scores, y, weights)
    a, b = fit.slopes, fit.offsets
    omega = weights / weights.mean()
    n_positive = omega @ y
    targets = np.where(y == 1, (n_positive + 1) / (n_positive + 2), 1 / (80 - n_positive + 2))
    for c in range(3):
        u = scores[:, c]

        def loss(theta, u=u):
            m = theta[0] * u + theta[1]
            return float(np.sum(omega * (np.logaddexp(0, m) - targets * m)))

        best = scipy_minimize(loss, [0.5, 0.0], bounds=[(0, None), (None, None)])
        assert loss([a[c], b[c]]) <= best.fun + 1e-6
    assert a[0] > 0


def test_curves_without_a_row_are_refits():
    """One Newton step from the curve with the row: n refits of a weak and a strong signal agree."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(60, 2)) * [1.0, 3.0]
    y = (rng.random(60) < expit(scores[:, 0])).astype(float)
    curves = LooCurves(scores, scores, scores, y, np.ones(60))
    whole = expit(curves.fit.slopes * scores + curves.fit.offsets)
    for c in range(2):
        refits = np.empty(60)
        for i in range(60):
            kept = np.arange(60) != i
            fit = curve_fit(scores[kept][:, [c]], y[kept], np.ones(59))
            a, b = fit.slopes, fit.offsets
            refits[i] = expit(a[0] * scores[i, c] + b[0])
        moved = np.abs(whole[:, c] - refits).mean()
        assert np.abs(curves.probabilities[:, c] - refits).mean() < 0.2 * moved


def test_scores_against_the_labels_get_a_flat_curve_and_separated_ones_a_finite_one():
    u = np.linspace(-1.0, 1.0, 50)[:, None]
    y = (u[:, 0] > 0).astype(float)
    fit = curve_fit(np.hstack([-u, u]), y, np.ones(50))
    a, b = fit.slopes, fit.offsets
    assert a[0] == 0
    assert_allclose(expit(b[0]), 0.5)
    assert 0 < a[1] < 1e3


def test_the_curve_reports_what_metrics_say():
    sim = data(300, 30)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    model = AngularLogisticRegressionCV(CS).fit(sim.X, sim.y, sample_weight=weights)
    design = make_design(sim.X, sim.y.astype(float), weights, True)
    solution = design.solver(1.0 / CS).solve(1e-3)
    observed = observe_path(design, 1.0 / CS, solution, "auto")
    curves = loo_curves(design, solution, observed, design.labels, weights)
    path = model.path_
    for c in range(len(CS)):
        p = curves.probabilities[:, c]
        assert_allclose(path.log_loss[c], log_loss(sim.y, p, sample_weight=weights))
        assert_allclose(path.ece[c], expected_calibration_error(sim.y, p, sample_weight=weights))
        raw = expit(curves.bare[:, c])
        assert_allclose(path.uncalibrated_log_loss[c], log_loss(sim.y, raw, sample_weight=weights))
        assert_allclose(
            path.uncalibrated_ece[c], expected_calibration_error(sim.y, raw, sample_weight=weights)
        )
    assert np.all(path.log_loss_se > 0)
    assert np.all(np.diff(path.degrees_of_freedom) > 0)


@pytest.mark.filterwarnings("ignore:The chosen C")  # the grid is there to be compared
@pytest.mark.parametrize("observables", ["auto", "exact"])
def test_losses_are_those_of_the_calibrator_at_each_penalty(observables):
    sim = data(300, 100)
    path = AngularLogisticRegressionCV(CS, observables=observables).fit(sim.X, sim.y).path_
    for c, C in enumerate(CS):
        base = LogisticRegression(C=C, tol=1e-8, max_iter=10_000)
        one = AngularCalibratedClassifier(base).fit(sim.X, sim.y)
        # The full calibration has about the same leave-one-out loss as the curve of the path.
        own = log_loss(sim.y, one.loo_proba_[:, 1])
        assert_allclose(path.log_loss[c], own, atol=0.01)
        plain = log_loss(sim.y, one.plain_loo_proba_[:, 1])
        assert_allclose(path.uncalibrated_log_loss[c], plain, atol=1e-3)
        assert_allclose(path.degrees_of_freedom[c], one.observables_.degrees_of_freedom, rtol=0.01)


def test_the_choice_minimizes_the_curve():
    sim = data(300, 150)
    for scoring in ("log_loss", "brier_score"):
        model = AngularLogisticRegressionCV(scoring=scoring).fit(sim.X, sim.y)
        losses = getattr(model.path_, scoring)
        assert model.path_.index == int(np.argmin(model.path_.criterion))
        near = losses[model.path_.index] - losses.min()
        assert near <= 0.5 * model.path_.log_loss_se[model.path_.index]
        assert model.C_ == model.Cs_[model.path_.index]
        assert 0 < model.path_.index < 9  # the grid has the minimum inside
        assert_allclose(model.coefs_paths_[model.path_.index], model.coef_[0], rtol=0.02, atol=1e-3)
    assert len(model.Cs_) == 10
    assert_array_equal(AngularLogisticRegressionCV([3.0, 0.1]).fit(sim.X, sim.y).Cs_, [0.1, 3.0])


def test_the_automatic_grid_spans_the_degrees_of_freedom():
    for n, d in ((200, 50), (100, 400)):
        sim = data(n, d)
        path = AngularLogisticRegressionCV().fit(sim.X, sim.y).path_
        assert path.degrees_of_freedom[0] <= 2.0 + 1e-6  # one, and the intercept
        assert path.degrees_of_freedom[-1] > 0.5 * min(n, d)


def test_the_chosen_penalty_predicts_about_as_well_as_the_best():
    losses = []
    for seed in range(5):
        sim = data(300, 150, seed)
        X, y = sim.sample(5000, random_state=1)
        chosen = log_loss(y, positive(AngularLogisticRegressionCV().fit(sim.X, sim.y), X))
        fixed = [
            log_loss(y, positive(AngularLogisticRegressionCV([C]).fit(sim.X, sim.y), X))
            for C in np.geomspace(0.1, 1000, 5)
        ]
        losses.append([chosen, *fixed])
    chosen, *fixed = np.mean(losses, axis=0)
    assert chosen < min(fixed) + 0.005
    assert chosen < max(fixed) - 0.02


# --- angles along the path --------------------------------------------------------------------


@pytest.mark.parametrize("link", [LINK, Probit(1.5, -0.3)], ids=repr)
def test_cosines_are_those_of_the_likelihood(link):
    sim = data(400, 80, link=link)
    design, solution = solved(sim, tol=1e-5)
    observed = observe_path(design, 1.0 / CS, solution, "exact")
    cosine, interval = cosines_under(link, observed, design.labels, design.weights, 0.95)
    for c, o in enumerate(observed):
        scale = score_scale(o, np.zeros(0), 0.0, case_weights=design.weights)
        angle = loo_angle(o, design.labels, design.weights, scale, link)
        assert abs(cosine[c] - angle.cosine) < 0.05 * angle.sampling_error + 1e-3
        half = 1.96 * angle.sampling_error
        assert_allclose(cosine[c] - interval[c, 0], half, rtol=0.05)


def test_the_path_of_cosines_follows_the_truth():
    sim = data(1000, 300, link=Logit(3.0))
    model = AngularLogisticRegressionCV(link=Logit(3.0)).fit(sim.X, sim.y)
    truth = np.array([sim.cosine(w) for w in model.coefs_paths_])
    inside = (model.path_.cosine_interval[:, 0] < truth) & (
        truth < model.path_.cosine_interval[:, 1]
    )
    assert inside.mean() > 0.7
    assert np.abs(model.path_.cosine - truth).mean() < 0.05


# --- the estimator ----------------------------------------------------------------------------


def test_the_chosen_fit_is_calibrated_as_by_the_calibrator():
    sim = data(300, 100)
    model = AngularLogisticRegressionCV().fit(sim.X, sim.y)
    base = LogisticRegression(C=model.C_, tol=1e-10, max_iter=20_000)
    one = AngularCalibratedClassifier(base).fit(sim.X, sim.y)
    assert_allclose(positive(model, sim.X), positive(one, sim.X), atol=2e-3)
    # Labels alone leave a long valley of angles and scales: a tenth of its width is nothing.
    assert abs(model.angle_.cosine - one.angle_.cosine) < 0.1 * one.angle_.sampling_error
    assert_allclose(model.coef_, one.coef_, atol=1e-3 * np.abs(one.coef_).max())
    assert model.distance_to_optimum_ < 1e-3
    fit = exact_fit(sim.X, sim.y, model.C_).moved_to(model.coef_[0], model.intercept_[0])
    assert fit.distance_to_optimum < 1e-3


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_kind_of_design_works(shape, fit_intercept):
    sim = data(*shape)
    model = AngularLogisticRegressionCV(6, fit_intercept=fit_intercept)
    if not fit_intercept:
        assert model.fit(sim.X, sim.y).intercept_[0] == 0
    p = positive(model.fit(sim.X, sim.y), sim.X)
    assert np.ptp(p) > 0.1
    assert model.distance_to_optimum_ < 0.02


def test_rotated_columns_change_nothing():
    sim, X_new = data(150, 30), data(50, 30, seed=1).X
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
    a = AngularLogisticRegressionCV(tol=1e-7).fit(sim.X, sim.y)
    b = AngularLogisticRegressionCV(tol=1e-7).fit(sim.X @ Q, sim.y)
    assert_allclose(b.Cs_, a.Cs_, rtol=1e-9)
    assert_allclose(b.path_.log_loss, a.path_.log_loss, atol=1e-5)
    assert_allclose(positive(b, X_new @ Q), positive(a, X_new), atol=1e-4)


def test_the_unit_and_the_origin_of_columns_do_not_matter():
    sim = data(150, 30)
    a = AngularLogisticRegressionCV(tol=1e-7).fit(sim.X, sim.y)
    b = AngularLogisticRegressionCV(tol=1e-7).fit(10.0 * sim.X + 3.0, sim.y)
    assert_allclose(b.Cs_, a.Cs_ / 100.0, rtol=1e-9)
    assert_allclose(b.path_.log_loss, a.path_.log_loss, atol=1e-5)
    assert_allclose(positive(b, 10.0 * sim.X + 3.0), positive(a, sim.X), atol=1e-4)


def test_swapped_labels_give_one_minus_p():
    sim = data(150, 30)
    a = AngularLogisticRegressionCV(tol=1e-7).fit(sim.X, sim.y)
    b = AngularLogisticRegressionCV(tol=1e-7).fit(sim.X, 1 - sim.y)
    assert b.C_ == pytest.approx(a.C_)
    assert_allclose(positive(b, sim.X), 1.0 - positive(a, sim.X), atol=1e-3)


def test_weight_zero_is_a_row_that_is_not_there():
    sim = data(150, 30)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    weights[::7] = 0.0
    kept = weights > 0
    a = AngularLogisticRegressionCV().fit(sim.X, sim.y, sample_weight=weights)
    b = AngularLogisticRegressionCV().fit(sim.X[kept], sim.y[kept], sample_weight=weights[kept])
    assert_array_equal(a.Cs_, b.Cs_)
    assert_array_equal(a.path_.log_loss, b.path_.log_loss)
    assert_array_equal(positive(a, sim.X), positive(b, sim.X))


def test_sparse_and_single_precision_rows_give_about_the_same():
    sim = data(200, 40)
    X = np.where(np.abs(sim.X) > 0.1, sim.X, 0.0)
    dense = AngularLogisticRegressionCV(CS, observables="exact").fit(X, sim.y)
    for rows in (sparse.csr_array(X), X.astype(np.float32)):
        other = AngularLogisticRegressionCV(CS, observables="exact").fit(rows, sim.y)
        assert other.C_ == dense.C_
        assert_allclose(other.path_.log_loss, dense.path_.log_loss, atol=1e-3)
        assert_allclose(positive(other, rows), positive(dense, X), atol=5e-3)


def test_a_pool_serves_the_chosen_fit_and_is_shared_by_clones():
    sim = data(300, 60)
    pool = sim.pool(400, random_state=0)
    model = AngularLogisticRegressionCV(CS, pool=pool)
    assert clone(model).pool is pool
    assert model.fit(sim.X, sim.y).angle_.method == "observable"
    assert model.scale_.source == "pool"
    base = LogisticRegression(C=model.C_, tol=1e-10, max_iter=20_000)
    one = AngularCalibratedClassifier(base, pool=pool).fit(sim.X, sim.y)
    assert_allclose(model.angle_.cosine, one.angle_.cosine, atol=2e-3)
    known = AngularLogisticRegressionCV(CS, link=LINK, angle=0.6).fit(sim.X, sim.y)
    assert known.angle_.cosine == 0.6


def test_constant_columns_do_no_harm_and_nothing_else_is_a_fallback():
    sim = data(100, 10)
    X = np.column_stack([sim.X, np.full(100, 7.0), np.zeros(100)])
    model = AngularLogisticRegressionCV(CS).fit(X, sim.y)
    assert_allclose(model.coef_[0, 10:], 0.0, atol=1e-9)
    plain = AngularLogisticRegressionCV(CS).fit(sim.X, sim.y)
    assert_allclose(positive(model, X), positive(plain, sim.X), atol=1e-4)
    for rows in (np.ones((100, 3)), sparse.csr_array((100, 3))):
        with pytest.warns(AngleWarning, match="prevalence"):
            flat = AngularLogisticRegressionCV().fit(rows, sim.y)
        assert isinstance(flat.curve_, ConstantCurve)
        assert np.isnan(flat.path_.cosine).all()


def test_a_tiny_class_falls_back_to_the_prevalence():
    sim = data(40, 5)
    y = np.zeros(40, dtype=int)
    y[:2] = 1
    with pytest.warns(AngleWarning, match="smaller class has 2 rows"):
        model = AngularLogisticRegressionCV().fit(sim.X, y)
    assert_allclose(positive(model, sim.X), 3 / 42)
    assert np.isnan(model.path_.cosine).all()
    assert np.isfinite(model.path_.log_loss).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Cs": 0}, "Cs=0 must be at least 1"),
        ({"Cs": "many"}, "Cs='many' must be a whole number"),
        ({"Cs": 2.5}, "Cs=2.5 must be a whole number"),
        ({"Cs": []}, r"Cs=\[\] must hold positive"),
        ({"Cs": [1.0, -1.0]}, "must hold positive finite numbers"),
        ({"Cs": [1.0, np.inf]}, "AngularCalibratedClassifier"),
        ({"scoring": "accuracy"}, "scoring='accuracy' must be one of log_loss, brier_score"),
        ({"tol": 0.0}, "tol=0.0 must lie between 0 and 1"),
        ({"observables": "some"}, "observables='some' must be one of"),
        ({"average": "all"}, "average='all' must be None, 'penalties' or 'folds'"),
        ({"average": True}, "average=True must be None, 'penalties' or 'folds'"),
        ({"angle": 2.0}, "angle=2.0 is meant as a cosine"),
        ({"confidence": 95}, "confidence=95 must lie between 0 and 1"),
    ],
)
def test_bad_options_are_named(options, message):
    sim = data(40, 5)
    with pytest.raises(ValueError, match=message):
        AngularLogisticRegressionCV(**options).fit(sim.X, sim.y)


def test_one_class_and_few_rows_are_refused():
    sim = data(40, 5)
    with pytest.raises(ValueError, match="one class only"):
        AngularLogisticRegressionCV().fit(sim.X, np.ones(40))
    with pytest.raises(ValueError, match="at least 5"):
        AngularLogisticRegressionCV().fit(sim.X[:4], [0, 1, 0, 1])


def test_blocks_with_more_columns_than_rows_are_put_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 300))
    y = (X[:, :5].sum(axis=1) + rng.normal(size=60) > 0).astype(int)
    whole = AngularLogisticRegressionCV().fit(X, y)
    blocks = AngularLogisticRegressionCV().fit([X[:20], X[20:]], y)
    assert blocks.C_ == whole.C_
    np.testing.assert_allclose(blocks.predict_proba(X), whole.predict_proba(X), atol=1e-9)
