"""Monte Carlo tolerances below are stated as multiples of the estimate's own standard error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.special import expit

from angcal.links import Logit, Probit
from angcal.links.multiclass import (
    AdditiveIndex,
    CallableMulticlassLink,
    InteractionIndex,
    Softmax,
    TwoLayer,
)
from angcal.simulation import (
    AutoregressiveCovariance,
    GivenCovariance,
    IdentityCovariance,
    SpikedCovariance,
    simulate,
    simulate_multiclass,
)
from angcal.simulation.covariances import draw_labels

D, K = 9, 3


def random_positive_definite(d, seed=3):
    root = np.random.default_rng(seed).standard_normal((d, 2 * d))
    return root @ root.T / (2 * d)


COVARIANCES = {
    "identity": IdentityCovariance(D, variance=2.0),
    "ar": AutoregressiveCovariance(D),
    "spiked": SpikedCovariance(D, spikes=(6.0,), random_state=0),
    "given": GivenCovariance(random_positive_definite(D)),
}
every_covariance = pytest.mark.parametrize("covariance", COVARIANCES.values(), ids=COVARIANCES)

LINKS = {
    "softmax": "softmax",
    "softmax with offsets": Softmax(K, offset=(0.5, 0.0, -1.0)),
    "two layers": TwoLayer((0.5, 0.2, 0.3), inner=Probit(scale=2.0)),
    "additive": AdditiveIndex(
        (lambda u: 0.4 * expit(u), lambda u: 0.3 * expit(-u), lambda u: 0.3 * (u > 0))
    ),
    "interaction": InteractionIndex(
        (lambda u: 0.3 * expit(u), lambda u: 0.3 * expit(u), lambda u: 0.1 + 0.0 * u),
        {(0, 2): lambda u, v: 0.3 * expit(u * v)},
    ),
    "callable of one number": lambda u: expit(u[:, 0] * u[:, 1] - u[:, 2]),
    "callable of four classes": lambda u: np.column_stack([expit(u) / 4, 1 - expit(u).sum(1) / 4]),
}
every_link = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


def example(n=5, d=D, **options):
    options = {"n_indices": K, "random_state": 0, **options}
    return simulate_multiclass(n, d, **options)


def some_coef(rows=4, d=D, seed=7):
    return np.random.default_rng(seed).standard_normal((rows, d))


# --- The truth -------------------------------------------------------------------------------


@every_covariance
def test_covariances_are_the_formulas(covariance):
    data = example(covariance=covariance, d=None, signal=(1.0, 2.0, 0.5))
    matrix, W, coef = covariance.matrix(), data.weights, some_coef()
    norms = np.sqrt(np.diag(coef @ matrix @ coef.T))
    np.testing.assert_allclose(data.index_covariance, W @ matrix @ W.T, atol=1e-12)
    np.testing.assert_allclose(np.sqrt(np.diag(data.index_covariance)), [1.0, 2.0, 0.5])
    np.testing.assert_allclose(data.norms(coef), norms, rtol=1e-12)
    R = coef @ matrix @ coef.T / np.outer(norms, norms)
    np.testing.assert_allclose(data.score_covariance(coef), R, atol=1e-12)
    C = W @ matrix @ coef.T / norms
    np.testing.assert_allclose(data.cross_covariance(coef), C, atol=1e-12)


@every_covariance
def test_index_correlation_holds_exactly(covariance):
    asked = np.array([[1.0, 0.6, -0.2], [0.6, 1.0, 0.1], [-0.2, 0.1, 1.0]])
    norms = np.array([3.0, 1.0, 0.5])
    data = example(covariance=covariance, d=None, signal=norms, index_correlation=asked)
    np.testing.assert_allclose(data.index_covariance, asked * np.outer(norms, norms), atol=1e-12)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.4, 1.0])
def test_equal_correlation_may_be_singular(rho):
    data = example(index_correlation=rho, signal=2.0)
    expected = 4.0 * (rho + (1 - rho) * np.eye(K))
    np.testing.assert_allclose(data.index_covariance, expected, atol=1e-12)
    if rho == -0.5:
        # The indices then sum to zero: the softmax's own redundancy.
        np.testing.assert_allclose(data.weights.sum(axis=0), 0.0, atol=1e-6)


def test_drawn_weights_have_unit_norm_and_small_correlation():
    data = example(d=4000)
    correlation = data.index_covariance
    np.testing.assert_allclose(np.diag(correlation), 1.0)
    off = correlation[np.triu_indices(K, 1)]
    assert np.all(np.abs(off) < 4 * np.sqrt(3 / 4000))
    assert np.all(off != 0.0)


def test_given_weights_are_kept_or_scaled():
    W = some_coef(K)
    np.testing.assert_array_equal(example(weights=W, n_indices=None, d=None).weights, W)
    scaled = example(weights=W, signal=1.5)
    np.testing.assert_allclose(scaled.norms(scaled.weights), 1.5)
    np.testing.assert_allclose(scaled.cross_covariance(W).diagonal(), 1.5)
    # A reference class without weights is a softmax like any other.
    W[0] = 0.0
    assert not example(weights=W).weights[0].any()


def test_own_directions_and_permutations():
    data, coef = example(n=200, index_correlation=0.3, signal=(1.0, 2.0, 3.0)), some_coef()
    norms = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        data.cross_covariance(5 * data.weights), data.index_covariance / norms, atol=1e-12
    )
    order = np.array([2, 0, 1])
    moved = dataclasses.replace(data, weights=data.weights[order]).fresh(200, random_state=1)
    again = data.fresh(200, random_state=1)
    np.testing.assert_allclose(moved.probability, again.probability[:, order], atol=1e-14)
    np.testing.assert_allclose(
        moved.cross_covariance(coef), data.cross_covariance(coef)[order], atol=1e-14
    )
    np.testing.assert_allclose(
        data.cross_covariance(coef[::-1]), data.cross_covariance(coef)[:, ::-1], atol=1e-14
    )


def test_one_index_is_the_single_index_model():
    w, coef = some_coef(1)[0], some_coef(1, seed=8)
    one = simulate(400, weights=w, link=Logit(scale=2.0), random_state=0)
    several = simulate_multiclass(
        400, weights=w[None], signal=1.0, link=TwoLayer((1.0,), Logit(scale=2.0)), random_state=0
    )
    np.testing.assert_allclose(several.weights[0], one.weights, rtol=1e-12)
    assert several.cross_covariance(coef)[0, 0] == pytest.approx(one.cosine(coef[0]), rel=1e-12)
    np.testing.assert_allclose(several.X, one.X)
    np.testing.assert_allclose(several.probability[:, 1], one.probability, rtol=1e-12)


# --- Rows and labels -------------------------------------------------------------------------


@every_link
def test_rows_labels_and_truth_fit_together(link):
    mean = np.linspace(-1, 1, D)
    data = example(n=4000, link=link, signal=2.0, mean=mean)
    L = data.n_classes
    np.testing.assert_allclose(data.indices, (data.X - mean) @ data.weights.T, atol=1e-10)
    np.testing.assert_array_equal(data.probability, data.link(data.indices))
    assert data.probability.shape == (4000, L)
    assert data.n_indices == K
    assert data.y.dtype == np.int64
    assert set(np.unique(data.y)) == set(range(L))
    # Each class by itself, and where its probability is high: within four standard errors.
    for level in range(L):
        p, hit = data.probability[:, level], data.y == level
        for rows in (np.ones(4000, bool), p > np.median(p)):
            spread = np.sqrt(np.sum((p * (1 - p))[rows]))
            assert abs(np.sum((hit - p)[rows])) < 4 * spread


def test_callables_become_links():
    one = example(link=LINKS["callable of one number"])
    assert isinstance(one.link, CallableMulticlassLink)
    assert one.n_classes == 2
    assert example(link=LINKS["callable of four classes"]).n_classes == 4
    assert isinstance(example(link="softmax").link, Softmax)


def test_link_knows_the_number_of_indices():
    assert simulate_multiclass(5, D, link=TwoLayer((0.5, 0.5)), random_state=0).n_indices == 2


def test_seeds_give_their_own_streams():
    first, again, other = example(n=6), example(n=6), example(n=6, random_state=1)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert np.abs(first.X - other.X).min() > 0
    fresh, pool = first.fresh(6, random_state=0), first.pool(6, random_state=0)
    assert np.abs(first.X - fresh.X).min() > 0
    assert np.abs(pool - fresh.X).min() > 0
    np.testing.assert_array_equal(fresh.weights, first.weights)
    np.testing.assert_array_equal(fresh.X, first.fresh(6, random_state=0).X)


def test_result_is_frozen_and_short_to_print():
    data = example()
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.y = data.y
    assert not any(f"{name}=" in repr(data) for name in ("X", "y", "weights", "probability"))


@pytest.mark.parametrize("design", ["gaussian", "rademacher", "uniform", "student", "elliptical"])
def test_fresh_scores_have_the_stated_covariances(design):
    data = example(design=design, degrees=12.0, index_correlation=0.4, signal=2.0)
    coef, n = some_coef(), 40_000
    S, G = data.fresh_scores(coef, n, random_state=2)
    for left, right, expected in [
        (S, S, data.score_covariance(coef)),
        (G, S, data.cross_covariance(coef)),
        (G, G, data.index_covariance),
    ]:
        products = left[:, :, None] * right[:, None, :]
        error = products.std(axis=0) / np.sqrt(n)
        assert np.all(np.abs(products.mean(axis=0) - expected) < 4 * error)


@pytest.mark.parametrize("design", ["rademacher", "uniform", "student"])
def test_fresh_scores_are_those_of_colored_rows(design, monkeypatch):
    data = example(design=design, mean=np.ones(D))
    coef = some_coef()
    monkeypatch.setattr("angcal.simulation.model._ENTRIES_PER_CHUNK", 10 * D)
    S, G = data.fresh_scores(coef, 20, random_state=np.random.default_rng(4))
    monkeypatch.undo()
    rows = data.pool(20, random_state=np.random.default_rng(4)) - 1.0
    np.testing.assert_allclose(S, rows @ coef.T / data.norms(coef), atol=1e-12)
    np.testing.assert_allclose(G, rows @ data.weights.T, atol=1e-12)


def test_dependent_scores_are_drawn_too():
    data = example(index_correlation=-0.5)
    coef = some_coef(2)[[0, 1, 0]]
    S, G = data.fresh_scores(coef, 50, random_state=0)
    np.testing.assert_allclose(S[:, 2], S[:, 0], atol=1e-12)
    np.testing.assert_allclose(G.sum(axis=1), 0.0, atol=1e-6)


def test_conditional_mean_of_the_indices_is_linear():
    """G − CR⁻¹S is free of S: its products with S and with signs of S average to zero."""
    data, n = example(index_correlation=0.2), 40_000
    coef = data.weights + 0.8 * some_coef(K) / data.norms(some_coef(K))[:, None]
    S, G = data.fresh_scores(coef, n, random_state=3)
    M = data.cross_covariance(coef) @ np.linalg.inv(data.score_covariance(coef))
    rest = G - S @ M.T
    for seen in (S, np.sign(S), np.sign(S[:, :1] * S[:, 1:])):
        products = rest[:, :, None] * seen[:, None, :]
        error = products.std(axis=0) / np.sqrt(n)
        assert np.all(np.abs(products.mean(axis=0)) < 4 * error)
    unexplained = data.index_covariance - M @ data.cross_covariance(coef).T
    products = rest[:, :, None] * rest[:, None, :]
    error = products.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(products.mean(axis=0) - unexplained) < 4 * error)


class TestDrawClasses:
    def test_frequencies(self):
        p, n = np.array([0.1, 0.2, 0.3, 0.4]), 40_000
        y = draw_labels(np.tile(p, (n, 1)), np.random.default_rng(0))
        error = np.sqrt(p * (1 - p) / n)
        assert np.all(np.abs(np.bincount(y) / n - p) < 4 * error)

    def test_impossible_classes_never_come(self):
        class Extreme:
            def __init__(self, value):
                self.value = value

            def random(self, size):
                return np.full(size, self.value)

        P = np.array([[0.0, 0.7, 0.3, 0.0], [0.0, 0.1, 0.9, 0.0]])
        assert draw_labels(P, Extreme(0.0)).tolist() == [1, 1]
        assert draw_labels(P, Extreme(np.nextafter(1.0, 0.0))).tolist() == [2, 2]


# --- Bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_indices": None}, "number of indices is not known"),
        ({"n_indices": 0}, "n_indices must be an integer of at least 1"),
        ({"link": TwoLayer((0.5, 0.5))}, "n_indices has 3, link has 2"),
        ({"weights": np.ones((2, D))}, "n_indices has 3, weights has 2"),
        ({"weights": np.ones(D)}, r"weights must hold rows of d .* got shape \(9,\)"),
        ({"weights": np.ones((K, 4))}, "weights must hold rows of 9"),
        ({"weights": np.full((K, D), np.nan)}, "weights must hold rows"),
        ({"weights": np.zeros((K, D))}, "must not all be zero"),
        ({"weights": np.eye(K, D) * [[1], [0], [1]], "signal": 1.0}, "row 1 of weights is zero"),
        ({"weights": np.ones((K, D)), "index_correlation": 0.1}, "not both"),
        ({"signal": 0.0}, "signal must be one positive number or 3"),
        ({"signal": (1.0, 2.0)}, "signal must be"),
        ({"index_correlation": -0.6}, "no negative eigenvalue.*at least -0.5"),
        ({"index_correlation": 1.1}, "no negative eigenvalue"),
        ({"index_correlation": np.eye(2)}, "symmetric 3 × 3 matrix"),
        ({"index_correlation": 2 * np.eye(3)}, "ones on its diagonal"),
        ({"index_correlation": np.nan}, "index_correlation must be one number"),
        ({"d": 2, "index_correlation": 0.1}, "needs n_indices <= d"),
        ({"link": "logit"}, "link='logit' is not a known name"),
        ({"link": lambda u: 2.0 + u[:, 0]}, "no probabilities"),
        ({"link": lambda u: np.ones(3)}, r"shape \(3,\)"),
        ({"design": "cauchy"}, "design must be one of"),
        ({"mean": np.zeros(2)}, "mean must hold 9"),
        ({"n": 0}, "n must be an integer"),
        ({"covariance": "toeplitz"}, "covariance must be"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        example(**options)


@pytest.mark.parametrize("link", [3, Softmax])
def test_links_of_another_type_are_refused(link):
    with pytest.raises(TypeError, match="must be 'softmax', a link object or a function"):
        example(link=link)


def test_bad_method_arguments_are_named():
    data = example()
    with pytest.raises(ValueError, match=r"coef must hold rows of 9 .*\(9,\)"):
        data.cross_covariance(np.ones(D))
    with pytest.raises(ValueError, match="row 1 of coef is zero"):
        data.score_covariance(np.eye(2, D) * [[1], [0]])
    with pytest.raises(ValueError, match="n must be an integer"):
        data.fresh(0)
    with pytest.raises(ValueError, match="m must be an integer"):
        data.pool(-1)


def test_earlier_names_are_the_same_objects():
    import angcal.multiclass
    import angcal.simulation

    assert angcal.simulation.simulate_several is simulate_multiclass
    assert angcal.simulation.SeveralSimulation is angcal.simulation.MulticlassSimulation
    assert angcal.multiclass.SeveralPredictor is angcal.multiclass.MulticlassPredictor
