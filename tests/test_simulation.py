"""Monte Carlo tolerances below are stated as multiples of the estimate's own standard error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import linalg, sparse, stats

from angcal.links import Logit, Probit
from angcal.simulation import (
    DESIGNS,
    AutoregressiveCovariance,
    GivenCovariance,
    IdentityCovariance,
    SpikedCovariance,
    simulate,
    simulate_labels,
)
from angcal.simulation.covariances import white_rows

PAPER_LINK = Logit(scale=3.0, offset=1.0)
D = 7


def random_positive_definite(d, seed=3):
    root = np.random.default_rng(seed).standard_normal((d, 2 * d))
    return root @ root.T / (2 * d)


COVARIANCES = {
    "identity": IdentityCovariance(D),
    "identity, variance 3": IdentityCovariance(D, variance=3.0),
    "ar": AutoregressiveCovariance(D),
    "ar, negative": AutoregressiveCovariance(D, rho=-0.8, variance=2.0),
    "ar, one column": AutoregressiveCovariance(1, rho=0.5),
    "spiked": SpikedCovariance(D, spikes=(6.0, -0.7), random_state=0),
    "no spike": SpikedCovariance(D, spikes=(), random_state=0),
    "given": GivenCovariance(random_positive_definite(D)),
    "given, variance 1": GivenCovariance(random_positive_definite(D), variance=1.0),
    "given, symmetric": GivenCovariance(random_positive_definite(D), root="symmetric"),
}
every_covariance = pytest.mark.parametrize("covariance", COVARIANCES.values(), ids=COVARIANCES)


class TestCovariances:
    def test_matrices_are_the_formulas(self):
        lags = np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
        np.testing.assert_allclose(COVARIANCES["identity"].matrix(), np.eye(D) / D)
        np.testing.assert_allclose(COVARIANCES["identity, variance 3"].matrix(), 3 * np.eye(D))
        np.testing.assert_allclose(COVARIANCES["ar"].matrix(), 0.5**lags / D)
        np.testing.assert_allclose(COVARIANCES["ar, negative"].matrix(), 2 * (-0.8) ** lags)
        base = random_positive_definite(D)
        np.testing.assert_allclose(COVARIANCES["given"].matrix(), base / D)
        np.testing.assert_allclose(COVARIANCES["given, variance 1"].matrix(), base)

    def test_spiked_has_the_spikes_as_eigenvalues(self):
        eigenvalues = np.linalg.eigvalsh(COVARIANCES["spiked"].matrix())
        np.testing.assert_allclose(eigenvalues, np.array([0.3, 1, 1, 1, 1, 1, 7]) / D)

    def test_spiked_directions_follow_the_seed(self):
        first, again, other = (SpikedCovariance(D, random_state=seed) for seed in (0, 0, 1))
        np.testing.assert_array_equal(first.matrix(), again.matrix())
        assert np.abs(first.matrix() - other.matrix()).max() > 0.01

    @every_covariance
    def test_products_agree_with_the_matrix(self, covariance):
        matrix, rng = covariance.matrix(), np.random.default_rng(1)
        for v in (rng.standard_normal(covariance.d), rng.standard_normal((covariance.d, 3))):
            before = v.copy()
            np.testing.assert_allclose(covariance.apply(v), matrix @ v, atol=1e-12)
            np.testing.assert_allclose(covariance.solve(v), np.linalg.solve(matrix, v), rtol=1e-9)
            np.testing.assert_array_equal(v, before)
        w = rng.standard_normal(covariance.d)
        assert covariance.norm(w) == pytest.approx(np.sqrt(w @ matrix @ w), rel=1e-12)

    @every_covariance
    def test_color_of_the_identity_is_a_root(self, covariance):
        # color(Z) = Z·Lᵀ is linear, so L Lᵀ can be read off exactly.
        white = np.eye(covariance.d)
        root = covariance.color(white)
        np.testing.assert_allclose(root.T @ root, covariance.matrix(), atol=1e-12)
        np.testing.assert_array_equal(white, np.eye(covariance.d))

    @every_covariance
    def test_loadings_are_the_colors_of_directions(self, covariance):
        rng = np.random.default_rng(2)
        white = rng.standard_normal((5, covariance.d))
        for v in (rng.standard_normal(covariance.d), rng.standard_normal((covariance.d, 3))):
            before = v.copy()
            np.testing.assert_allclose(
                white @ covariance.loadings(v), covariance.color(white) @ v, atol=1e-12
            )
            np.testing.assert_array_equal(v, before)

    def test_roots_differ_for_the_same_covariance(self):
        base = random_positive_definite(D)
        symmetric = GivenCovariance(base, variance=1.0, root="symmetric").color(np.eye(D))
        np.testing.assert_allclose(symmetric, linalg.sqrtm(base), atol=1e-10)
        cholesky = GivenCovariance(base, variance=1.0).color(np.eye(D))
        np.testing.assert_allclose(cholesky, np.linalg.cholesky(base).T)

    @every_covariance
    def test_colored_rows_have_the_covariance(self, covariance):
        n = 40_000
        rows = covariance.color(np.random.default_rng(5).standard_normal((n, covariance.d)))
        truth = covariance.matrix()
        # Gaussian rows: Var(x_k x_l) = Σ_kk Σ_ll + Σ_kl². 4.5 s.e. over at most 49 entries.
        standard_error = np.sqrt((np.outer(truth.diagonal(), truth.diagonal()) + truth**2) / n)
        assert np.all(np.abs(rows.T @ rows / n - truth) < 4.5 * standard_error)

    def test_autoregressive_never_forms_the_matrix(self):
        d = 2_000_000  # d² doubles would be 32 TB
        covariance, v = AutoregressiveCovariance(d), np.random.default_rng(0).standard_normal(d)
        np.testing.assert_allclose(covariance.solve(covariance.apply(v)), v, atol=1e-12)
        assert covariance.color(v[None, :]).shape == (1, d)

    def test_resizing_keeps_the_default_variance_at_one_over_d(self):
        assert dataclasses.replace(AutoregressiveCovariance(10), d=40).scale == 1 / 40

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: IdentityCovariance(0), "d must be an integer of at least 1; got 0"),
            (lambda: IdentityCovariance(2.5), "d must be an integer"),
            (lambda: IdentityCovariance(3, variance=0.0), "variance must be positive"),
            (lambda: IdentityCovariance(3, variance=np.nan), "variance must be positive"),
            (lambda: AutoregressiveCovariance(3, rho=1.0), "rho must lie strictly"),
            (lambda: SpikedCovariance(3, spikes=(-1.0,)), "above -1"),
            (lambda: SpikedCovariance(1, spikes=(1.0, 2.0)), "at most d=1"),
            (lambda: GivenCovariance(np.ones((2, 3))), r"square matrix; got shape \(2, 3\)"),
            (lambda: GivenCovariance(np.ones(3)), "square matrix"),
            (lambda: GivenCovariance(np.empty((0, 0))), "square matrix"),
            (lambda: GivenCovariance(np.array([[1.0, 0.5], [0.4, 1.0]])), "symmetric"),
            (lambda: GivenCovariance(np.array([[1.0, np.nan], [np.nan, 1.0]])), "symmetric"),
            (lambda: GivenCovariance(np.array([[1.0, 2.0], [2.0, 1.0]])), "positive definite"),
            (lambda: GivenCovariance(np.eye(2), variance=-1.0), "variance must be positive"),
            (lambda: GivenCovariance(np.eye(2), root="qr"), "root must be .*got 'qr'"),
        ],
    )
    def test_bad_arguments_are_named(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()


class TestDesigns:
    n, d = 4000, 25

    def entries(self, design, **options):
        covariance = IdentityCovariance(self.d, variance=1.0)
        data = simulate(
            self.n, link="logit", covariance=covariance, design=design, random_state=2, **options
        )
        return data.X

    @pytest.mark.parametrize(
        ("design", "law"),
        [
            ("gaussian", stats.norm()),
            ("uniform", stats.uniform(-np.sqrt(3), 2 * np.sqrt(3))),
            ("student", stats.t(5, scale=np.sqrt(3 / 5))),
        ],
    )
    def test_entries_have_their_law_and_unit_variance(self, design, law):
        assert law.var() == pytest.approx(1.0)
        assert stats.kstest(self.entries(design).ravel(), law.cdf).pvalue > 0.01

    def test_rademacher_entries(self):
        entries = self.entries("rademacher")
        np.testing.assert_array_equal(np.unique(entries), [-1.0, 1.0])
        assert abs(entries.mean()) < 4 / np.sqrt(entries.size)

    def test_student_degrees_are_used(self):
        law = stats.t(3, scale=np.sqrt(1 / 3))
        assert stats.kstest(self.entries("student", degrees=3.0).ravel(), law.cdf).pvalue > 0.01

    def test_elliptical_rows_share_one_radius_of_mean_square_one(self):
        # Given the radius a row is Gaussian, so ‖x‖²/d = r²·(χ²_d/d) and its mean is E r² = 1.
        degrees = 12.0
        squared = (self.entries("elliptical", degrees=degrees) ** 2).mean(axis=1)
        assert abs(squared.mean() - 1) < 4 * squared.std() / np.sqrt(self.n)
        # ‖x‖²/d is (ν − 2)/ν times an F(d, ν): one radius a row, not one an entry.
        law = stats.f(self.d, degrees, scale=(degrees - 2) / degrees)
        assert stats.kstest(squared, law.cdf).pvalue > 0.01

    @pytest.mark.parametrize("design", DESIGNS)
    def test_signal_has_unit_variance(self, design):
        data = simulate(40_000, 30, link="logit", design=design, degrees=9.0, random_state=8)
        squared = data.signal**2
        assert abs(squared.mean() - 1) < 4 * squared.std() / np.sqrt(squared.size)


class TestSimulate:
    @pytest.mark.parametrize("options", [{}, {"n_nonzero": 3}, {"weights": np.arange(1.0, 13.0)}])
    @pytest.mark.parametrize("covariance", ["ar", "identity", None])
    def test_weights_have_unit_norm(self, options, covariance):
        data = simulate(20, 12, link=PAPER_LINK, covariance=covariance, random_state=0, **options)
        w = data.weights
        assert w @ data.covariance.matrix() @ w == pytest.approx(1.0, rel=1e-12)

    def test_given_weights_keep_their_direction(self):
        given = np.array([1.0, -2.0, 0.0, 5.0])
        ratio = simulate(5, link="logit", weights=given, random_state=0).weights[[0, 1, 3]]
        np.testing.assert_allclose(ratio / ratio[0], [1.0, -2.0, 5.0])

    def test_n_nonzero_counts_a_random_support(self):
        supports = {
            tuple(
                np.flatnonzero(simulate(1, 30, link="logit", n_nonzero=4, random_state=s).weights)
            )
            for s in range(5)
        }
        assert {len(support) for support in supports} == {4}
        assert len(supports) == 5

    def test_drawn_weights_are_gaussian(self):
        data = simulate(1, 4000, link="logit", covariance="identity", random_state=4)
        # w*/‖w*‖·√d of a Gaussian vector is a standard normal sample up to O(1/√d).
        assert stats.kstest(data.weights / data.weights.std(), "norm").pvalue > 0.01

    @pytest.mark.parametrize("link", [PAPER_LINK, Probit(scale=2.0, offset=-1.0)])
    def test_labels_follow_their_probabilities(self, link):
        data = simulate(20_000, 10, link=link, random_state=1)
        p, y = data.probability, data.y
        assert y.dtype == np.int64
        assert set(np.unique(y)) == {0, 1}
        np.testing.assert_array_equal(p, link(data.signal))
        standard_error = np.sqrt(np.sum(p * (1 - p)))
        assert abs(np.sum(y - p)) < 4 * standard_error
        # Not the base rate only: the residuals are unrelated to the signal as well.
        slope_error = np.sqrt(np.sum(data.signal**2 * p * (1 - p)))
        assert abs(np.sum(data.signal * (y - p))) < 4 * slope_error

    def test_truth_is_the_formula_on_the_rows(self):
        mean = np.linspace(-2.0, 2.0, 6)
        data = simulate(300, 6, link=PAPER_LINK, mean=mean, random_state=3)
        np.testing.assert_allclose(data.signal, (data.X - mean) @ data.weights, atol=1e-12)
        error = np.sqrt(data.covariance.matrix().diagonal() / 300)
        assert np.all(np.abs(data.X.mean(axis=0) - mean) < 4 * error)

    def test_fresh_rows_come_from_the_same_truth(self):
        data = simulate(10, 6, link=PAPER_LINK, mean=np.full(6, 3.0), random_state=3)
        X, y, signal, probability = data.sample(5000, random_state=9, return_truth=True)
        np.testing.assert_allclose(signal, (X - 3.0) @ data.weights, atol=1e-12)
        np.testing.assert_array_equal(probability, PAPER_LINK(signal))
        assert abs(np.sum(y - probability)) < 4 * np.sqrt(np.sum(probability * (1 - probability)))
        X_short, y_short = data.sample(5000, random_state=9)
        np.testing.assert_array_equal(X_short, X)
        np.testing.assert_array_equal(y_short, y)

    def test_pool_rows_have_mean_and_covariance(self):
        data = simulate(10, 6, link=PAPER_LINK, mean=np.full(6, 3.0), random_state=3)
        n, truth = 20_000, data.covariance.matrix()
        centered = data.pool(n, random_state=0) - 3.0
        variances = truth.diagonal()
        assert np.all(np.abs(centered.mean(axis=0)) < 4 * np.sqrt(variances / n))
        standard_error = np.sqrt((np.outer(variances, variances) + truth**2) / n)
        assert np.all(np.abs(centered.T @ centered / n - truth) < 4.5 * standard_error)

    @pytest.mark.parametrize("weights", [None, np.ones(4)])
    def test_the_same_integer_never_hands_out_the_same_rows(self, weights):
        data = simulate(50, 4, link="logit", weights=weights, random_state=0)
        rows = [data.X, data.sample(50, random_state=0)[0], data.pool(50, random_state=0)]
        assert np.unique(np.concatenate(rows).ravel()).size == 3 * 50 * 4

    @pytest.mark.parametrize("design", DESIGNS)
    def test_same_seed_same_digits(self, design):
        def draw(seed):
            data = simulate(15, 4, link="logit", design=design, random_state=seed)
            scores = data.fresh_scores(np.ones(4), 6, random_state=seed)
            return np.concatenate([data.X.ravel(), data.y, data.weights, *scores])

        np.testing.assert_array_equal(draw(7), draw(7))
        assert not np.array_equal(draw(7), draw(8))

    def test_generator_advances(self):
        rng = np.random.default_rng(7)
        first = simulate(15, 4, link="logit", random_state=rng)
        second = simulate(15, 4, link="logit", random_state=rng)
        np.testing.assert_array_equal(first.X, simulate(15, 4, link="logit", random_state=7).X)
        assert not np.array_equal(first.X, second.X)

    @pytest.mark.parametrize(
        ("n", "d", "options", "message"),
        [
            (0, 5, {}, "n must be an integer of at least 1; got 0"),
            (2.5, 5, {}, "n must be an integer"),
            (True, 5, {}, "n must be an integer"),
            (5, 0, {}, "d must be an integer of at least 1; got 0"),
            (5, None, {}, "pass d, weights, or a Covariance"),
            (5, 5, {"design": "cauchy"}, "gaussian, rademacher.*got 'cauchy'"),
            (5, 5, {"design": "student", "degrees": 2.0}, "degrees must be.*got 2.0"),
            (5, 5, {"covariance": "toeplitz"}, "got 'toeplitz'"),
            (5, 5, {"covariance": IdentityCovariance(4)}, "d=5 but covariance is for d=4"),
            (5, 5, {"covariance": np.eye(5)}, "wrap a matrix in GivenCovariance"),
            (5, 5, {"weights": np.ones(4)}, r"weights must hold 5 .* got shape \(4,\)"),
            (5, 5, {"weights": np.zeros(5)}, "weights must not all be zero"),
            (5, 5, {"weights": np.full(5, np.nan)}, "weights must hold 5 finite"),
            (5, 5, {"weights": np.ones(5), "n_nonzero": 2}, "weights or n_nonzero, not both"),
            (5, 5, {"n_nonzero": 6}, "n_nonzero must be at most d=5; got 6"),
            (5, 5, {"n_nonzero": 0}, "n_nonzero must be an integer of at least 1"),
            (5, 5, {"mean": np.zeros(3)}, "mean must hold 5"),
        ],
    )
    def test_bad_arguments_are_named(self, n, d, options, message):
        with pytest.raises(ValueError, match=message):
            simulate(n, d, link="logit", **options)

    def test_bad_method_arguments_are_named(self):
        data = simulate(5, 3, link="logit", random_state=0)
        with pytest.raises(ValueError, match=r"coef must hold 3 .*\(1, 3\).*np.ravel"):
            data.cosine(np.ones((1, 3)))
        with pytest.raises(ValueError, match="coef is zero"):
            data.cosine(np.zeros(3))
        with pytest.raises(ValueError, match="n must be an integer"):
            data.sample(0)
        with pytest.raises(ValueError, match="m must be an integer"):
            data.pool(-1)


class TestAgainstAFittedScore:
    intercept = 0.7

    def data_and_coef(self, design="gaussian", d=40):
        data = simulate(
            5, d, link=PAPER_LINK, design=design, mean=np.linspace(0, 1, d), random_state=6
        )
        noise = np.random.default_rng(0).standard_normal(d)
        return data, 2.0 * data.weights + 1.5 * noise / data.norm(noise)

    def test_cosine_and_norm_are_the_formulas(self):
        data, coef = self.data_and_coef()
        matrix = data.covariance.matrix()
        norm = np.sqrt(coef @ matrix @ coef)
        assert data.norm(coef) == pytest.approx(norm, rel=1e-12)
        assert data.cosine(coef) == pytest.approx(data.weights @ matrix @ coef / norm, rel=1e-12)
        assert data.cosine(-3 * data.weights) == pytest.approx(-1.0)
        assert "array" not in repr(data)

    @pytest.mark.parametrize("design", ["gaussian", "uniform"])
    def test_scores_of_a_zero_coef_are_the_intercept(self, design):
        data, _ = self.data_and_coef(design)
        scores, signal = data.fresh_scores(np.zeros(40), 50, random_state=0, intercept=0.7)
        np.testing.assert_array_equal(scores, np.full(50, 0.7))
        assert signal.std() > 0.5

    @pytest.mark.parametrize("design", ["gaussian", "rademacher", "student", "elliptical"])
    def test_fresh_scores_have_the_moments_of_rows(self, design):
        data, coef = self.data_and_coef(design)
        n = 60_000
        scores, signal = data.fresh_scores(coef, n, random_state=1, intercept=self.intercept)
        standardized = (scores - coef @ data.mean - self.intercept) / data.norm(coef)
        for draws, expected in [
            (standardized, 0.0),
            (signal, 0.0),
            (standardized**2, 1.0),
            (signal**2, 1.0),
            (standardized * signal, data.cosine(coef)),
        ]:
            assert abs(draws.mean() - expected) < 4 * draws.std() / np.sqrt(n)

    def test_elliptical_shortcut_matches_rows(self):
        data, coef = self.data_and_coef("elliptical")
        n = 20_000
        X, _, signal, _ = data.sample(n, random_state=2, return_truth=True)
        short_scores, short_signal = data.fresh_scores(coef, n, random_state=3)
        assert stats.ks_2samp(X @ coef, short_scores).pvalue > 0.01
        # The ratio is free of a shared radius: two radii, or none in one place, would change it.
        ratio = ((X - data.mean) @ coef) / signal
        short_ratio = (short_scores - coef @ data.mean) / short_signal
        assert stats.ks_2samp(ratio, short_ratio).pvalue > 0.01

    def test_chunks_make_up_all_rows(self, monkeypatch):
        data, coef = self.data_and_coef("uniform")
        whole = data.fresh_scores(coef, 103, random_state=1)
        monkeypatch.setattr("angcal.simulation.model._ENTRIES_PER_CHUNK", 10 * 40)
        chunked = data.fresh_scores(coef, 103, random_state=1)
        np.testing.assert_allclose(chunked, whole, rtol=1e-12)

    @pytest.mark.parametrize("root", ["cholesky", "symmetric"])
    @pytest.mark.parametrize("design", ["rademacher", "uniform", "student"])
    def test_fresh_scores_are_those_of_colored_rows(self, design, root):
        covariance = GivenCovariance(random_positive_definite(9), root=root)
        data = simulate(
            3,
            link=PAPER_LINK,
            covariance=covariance,
            design=design,
            mean=np.ones(9),
            random_state=0,
        )
        coef = np.arange(9.0)
        scores, signal = data.fresh_scores(coef, 20, random_state=np.random.default_rng(4))
        rows = data.pool(20, random_state=np.random.default_rng(4))
        np.testing.assert_allclose(scores, rows @ coef, atol=1e-12)
        np.testing.assert_allclose(signal, (rows - 1.0) @ data.weights, atol=1e-12)

    def test_rademacher_entries_are_fair_choices(self):
        choices = np.random.default_rng(5).choice(np.array([-1.0, 1.0]), (6, 7))
        np.testing.assert_array_equal(
            white_rows("rademacher", 6, 7, 5.0, np.random.default_rng(5)), choices
        )

    @pytest.mark.parametrize(("design", "d"), [("gaussian", 40), ("rademacher", 400)])
    def test_calibrated_curve_is_the_binned_frequency(self, design, d):
        data, coef = self.data_and_coef(design, d)
        n, bins = 100_000, 25
        scores, signal = data.fresh_scores(coef, n, random_state=4, intercept=self.intercept)
        # Averaging F over the bin, and σ(signal) for y, leaves no binning error and less noise.
        excess = data.link(signal) - data.calibrated_curve(scores, coef, self.intercept)
        binned = excess[np.argsort(scores)].reshape(bins, -1)
        standard_error = binned.std(axis=1) / np.sqrt(n // bins)
        assert np.all(np.abs(binned.mean(axis=1)) < 4 * standard_error)

    def test_calibrated_curve_of_the_truth_is_the_link(self):
        data, _ = self.data_and_coef()
        signal = np.linspace(-2, 2, 9)
        scores = signal + data.weights @ data.mean
        np.testing.assert_allclose(
            data.calibrated_curve(scores, data.weights), PAPER_LINK(signal), atol=1e-6
        )


class TestSimulateLabels:
    def rows(self, n=3000, d=20):
        rng = np.random.default_rng(11)
        return rng.exponential(size=(n, d)) * np.geomspace(0.1, 100, d)

    @pytest.mark.parametrize("options", [{}, {"standardize": True}, {"n_nonzero": 2}])
    def test_truth_on_real_rows(self, options):
        X = self.rows()
        labels = simulate_labels(X, link=PAPER_LINK, random_state=0, **options)
        np.testing.assert_allclose(labels.mean, X.mean(axis=0))
        np.testing.assert_allclose(labels.signal, (X - labels.mean) @ labels.weights, atol=1e-10)
        assert labels.signal.mean() == pytest.approx(0.0, abs=1e-10)
        assert labels.signal.var() == pytest.approx(1.0, rel=1e-10)
        np.testing.assert_array_equal(labels.probability, PAPER_LINK(labels.signal))
        p = labels.probability
        assert abs(np.sum(labels.y - p)) < 4 * np.sqrt(np.sum(p * (1 - p)))

    def test_standardize_removes_the_units(self):
        X = self.rows()
        share = {
            flag: np.abs(simulate_labels(X, link="logit", standardize=flag, random_state=0).weights)
            * X.std(axis=0)
            for flag in (False, True)
        }
        raw = np.abs(np.random.default_rng(0).standard_normal(20))
        np.testing.assert_allclose(share[True] / share[True][0], raw / raw[0])
        np.testing.assert_allclose(
            share[False] / share[False][0], raw * X.std(axis=0) / (raw[0] * X.std(axis=0)[0])
        )

    @pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
    @pytest.mark.parametrize("standardize", [False, True])
    def test_sparse_rows_give_the_dense_answer(self, container, standardize):
        X = self.rows(400, 10)
        X[X < np.median(X, axis=0)] = 0.0
        options = {"link": PAPER_LINK, "standardize": standardize, "random_state": 5}
        dense = simulate_labels(X, **options)
        thin = simulate_labels(container(X), **options)
        for name in ("signal", "weights", "mean", "probability"):
            assert type(getattr(thin, name)) is np.ndarray
            np.testing.assert_allclose(getattr(thin, name), getattr(dense, name), atol=1e-10)
        np.testing.assert_array_equal(thin.y, dense.y)

    def test_given_weights_are_scaled_only(self):
        X, given = self.rows(50, 3), np.array([1.0, 0.0, -2.0])
        labels = simulate_labels(X, link="logit", weights=given, standardize=True, random_state=0)
        np.testing.assert_allclose(labels.weights * (X @ given).std(), given)

    def test_a_constant_column_carries_no_signal(self):
        X = self.rows(50, 3)
        X[:, 1] = 1e3
        labels = simulate_labels(X, link="logit", standardize=True, random_state=0)
        assert labels.signal.var() == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("X", "options", "message"),
        [
            (np.full((6, 2), 0.1), {}, "constant on these rows"),
            (np.zeros((6, 2)), {}, "constant on these rows"),
            (np.eye(3), {"weights": np.ones(2)}, "weights must hold 3"),
            (np.eye(3), {"weights": np.zeros(3)}, "constant on these rows"),
            (np.array([[np.nan, 1.0], [0.0, 1.0]]), {}, "NaN"),
        ],
    )
    def test_bad_arguments_are_named(self, X, options, message):
        with pytest.raises(ValueError, match=message):
            simulate_labels(X, link="logit", random_state=0, **options)
