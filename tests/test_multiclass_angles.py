"""Cross-index angles where Cov(G) is known: gradients, Stein's identity, likelihood, whitening."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import log_softmax

from angcal.arrays import symmetric_root
from angcal.links.multiclass import Softmax, contrasts, index_map
from angcal.multiclass.integration import SmoothedLikelihood, rule_for, sobol_rule
from angcal.multiclass.known import (
    KnownIndices,
    estimate_known,
    fitting_rule,
    stein_covariance,
    whiten,
)


def _draw(n, K, cosine, seed, scale=2.0, offset=0.0):
    """Whitened-able scores with Cov(h, s) known: s = cosine·h/scale + noise."""
    rng = np.random.default_rng(seed)
    A = contrasts(K)
    q = A.shape[1]
    root = scale * (np.eye(q) + 0.3 * rng.normal(size=(q, q)))
    h = rng.normal(size=(n, q)) @ root.T
    gamma = root @ root.T
    T = cosine * np.linalg.qr(rng.normal(size=(q, q)))[0]
    white = np.linalg.solve(root, h.T).T
    s = white @ T + np.sqrt(1 - cosine**2) * rng.normal(size=(n, q))
    logits = h @ A.T + offset
    P = np.exp(log_softmax(logits, axis=1))
    y = (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return s, y, gamma, root @ T, A


@pytest.mark.parametrize("K", [2, 3, 5])
def test_gradient_of_the_likelihood(K):
    rng = np.random.default_rng(0)
    A = contrasts(K)
    q = A.shape[1]
    n = 15
    rule = rule_for(np.full(q, 1.0)) if q <= 3 else sobol_rule(q, 16, 2)
    loss = SmoothedLikelihood(
        rng.integers(0, K, n), rng.uniform(0.5, 2, n), A, rng.normal(size=K), rule
    )
    means, noise = rng.normal(size=(n, q)), rng.normal(size=(q, q))
    _, in_means, in_noise = loss(means, noise)

    def of_means(flat):
        return loss(flat.reshape(n, q), noise)[0]

    def of_noise(flat):
        return loss(means, flat.reshape(q, q))[0]

    assert check_grad(of_means, lambda _: in_means.ravel(), means.ravel()) < 1e-5
    assert check_grad(of_noise, lambda _: in_noise.ravel(), noise.ravel()) < 1e-5


@pytest.mark.parametrize("K", [2, 3, 4])
def test_gradient_in_the_unconstrained_matrix(K):
    s, y, gamma, _, A = _draw(60, K, 0.6, seed=1)
    likelihood = SmoothedLikelihood(y, np.ones(60), A, np.zeros(K), fitting_rule(gamma))
    problem = KnownIndices(likelihood, whiten(s, np.ones(60)).values, symmetric_root(gamma))
    B = np.random.default_rng(2).normal(size=gamma.shape)
    error = check_grad(lambda x: problem.loss(x)[0], lambda x: problem.loss(x)[1], B.ravel())
    assert error < 1e-4


def test_every_matrix_leaves_nonnegative_noise():
    gamma = np.array([[2.0, 0.5], [0.5, 1.0]])
    problem = KnownIndices(None, np.zeros((1, 2)), symmetric_root(gamma))
    for seed in range(5):
        B = np.random.default_rng(seed).normal(size=(2, 2))
        C = problem.covariance(B)
        W, _ = problem.maps(B)
        np.testing.assert_allclose(C @ C.T + W @ W.T, gamma, atol=1e-12)
        # A T that is not too long comes back as it was.
        T = np.linalg.svd(np.linalg.solve(problem.root, C), compute_uv=False)
        if T.max() > 0.95:
            continue
        np.testing.assert_allclose(problem.covariance(problem.start(C)), C, atol=1e-8)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_stein_and_likelihood_find_the_covariance(K):
    offset = np.linspace(-0.5, 0.5, K)
    s, y, gamma, C, A = _draw(4_000, K, 0.6, seed=3, offset=offset)
    ones = np.ones(len(y))
    whitened = whiten(s, ones)
    back = whitened.factor.T
    stein = stein_covariance(y, ones, whitened, A, offset, gamma) @ back
    found = estimate_known(y, ones, whitened, A, offset, gamma, inflation=1.0)
    likely = found.covariance @ back
    # Within one and a half of the error that the information allows.
    expected = np.sqrt(np.trace(found.variance))
    assert expected < 0.12 * np.linalg.norm(C)
    assert np.linalg.norm(likely - C) < 1.5 * expected
    assert np.linalg.norm(stein - C) < 2.0 * expected


@pytest.mark.slow
def test_standard_errors_of_independent_scores():
    # z-scores of the estimate over draws: root mean square 1, its standard error 1/√(2·draws·4).
    z = []
    for seed in range(40):
        s, y, gamma, C, A = _draw(600, 3, 0.6, seed=100 + seed)
        ones = np.ones(len(y))
        whitened = whiten(s, ones)
        found = estimate_known(y, ones, whitened, A, np.zeros(3), gamma, inflation=1.0)
        true = C @ whitened.inverse.T
        z.append(((found.covariance - true).ravel()) / np.sqrt(np.diag(found.variance)))
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.2


def test_dependent_scores_are_whitened_without_their_copy():
    rng = np.random.default_rng(4)
    s = rng.normal(size=(100, 2))
    three = np.column_stack([s, s.sum(axis=1)])
    whitened = whiten(three, np.ones(100))
    assert whitened.values.shape == (100, 2)
    np.testing.assert_allclose(np.cov(whitened.values.T, bias=True), np.eye(2), atol=1e-12)
    np.testing.assert_allclose(
        whitened.center + whitened.values @ whitened.factor.T, three, atol=1e-12
    )


def test_the_softmax_s_own_redundancy_does_not_matter():
    s, y, gamma, _, A = _draw(500, 3, 0.6, seed=6)
    ones = np.ones(500)
    full = A @ gamma @ A.T
    seen = index_map(A)
    shifted = full + np.full((3, 3), 5.0)
    np.testing.assert_allclose(seen @ shifted @ seen.T, gamma, atol=1e-12)
    assert Softmax(3, covariance=shifted).covariance.shape == (3, 3)
    found = estimate_known(y, ones, whiten(s, ones), A, np.zeros(3), seen @ shifted @ seen.T)
    assert np.isfinite(found.log_likelihood)


def test_directions_that_hold_only_a_row_s_own_label_are_not_trusted():
    # Fitted scores vary along one line; leaving a row out adds a little of its own label.
    rng = np.random.default_rng(10)
    fitted = np.outer(rng.normal(size=300), [3.0, 1.0])
    y = rng.integers(0, 3, 300)
    label = np.eye(3)[y] @ rng.normal(size=(3, 2))
    whitened = whiten(fitted - 1e-3 * label, np.ones(300), fitted)
    assert whitened.values.shape == (300, 1)
    np.testing.assert_allclose(whitened.inverse @ whitened.factor, [[1.0]], atol=1e-9)
    np.testing.assert_allclose(whitened.values.var(), 1.0, atol=1e-9)
    # What is kept is the line.
    np.testing.assert_allclose(whitened.factor[0] / whitened.factor[1], 3.0, rtol=1e-2)
    assert whiten(fitted - 1e-3 * label, np.ones(300)).values.shape == (300, 2)


def test_rows_that_a_fit_follows_are_trusted():
    # Interpolating fits have fitted scores that vary more than those left out.
    rng = np.random.default_rng(11)
    left_out = rng.normal(size=(200, 3))
    fitted = 0.7 * left_out + 1.5 * rng.normal(size=(200, 3))
    assert whiten(left_out, np.ones(200), fitted).values.shape == (200, 3)
