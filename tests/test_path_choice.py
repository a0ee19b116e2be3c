"""The choice among penalties: evidence, what sampled leverages leave open, and no certainty."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from angcal import AngularLogisticRegressionCV, Logit
from angcal.penalty_path.evidence import log_evidence
from angcal.simulation import simulate


def data(n, d, seed=0):
    return simulate(n, d, link=Logit(3.0, 1.0), random_state=seed)


def test_the_evidence_is_that_of_laplace():
    """Slopes along the path, summed up, are log p(y | C) as a determinant has it, D fixed."""
    sim = data(80, 30)
    X = sim.X - sim.X.mean(axis=0)
    Cs = np.geomspace(1e-4, 1.0, 60)
    found = []
    for C in Cs:
        model = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, sim.y)
        p, w = model.predict_proba(X)[:, 1], model.coef_[0]
        D, gram = p * (1.0 - p), X.T @ (X * (p * (1.0 - p))[:, None])
        df = np.trace(np.linalg.solve(gram + np.eye(30) / C, gram))
        likelihood = float(np.sum(np.log(np.where(sim.y == 1, p, 1.0 - p))))
        half = 0.5 * np.linalg.slogdet(np.eye(80) + C * np.sqrt(np.outer(D, D)) * (X @ X.T))[1]
        found.append((likelihood - 0.5 * w @ w / C - half, w @ w, df))
    exact, squares, df = np.array(found).T
    slopes = log_evidence(Cs, squares, df)
    # Curvatures fall where fits get weaker, which the slope leaves out.
    assert abs(np.argmax(slopes) - np.argmax(exact)) <= 6
    weak = Cs < 2e-3
    assert_allclose(slopes[weak], exact[weak] - 80 * np.log(0.5), atol=0.15)


def test_the_evidence_settles_what_noise_leaves_open():
    """Where penalties do alike by leave-one-out, the criterion follows the evidence."""
    sim = data(100, 40)
    path = AngularLogisticRegressionCV().fit(sim.X, sim.y).path_
    added = path.criterion - path.log_loss - path.sampling_error
    assert abs(added.min()) < 1e-12
    assert np.ptp(added) > 1e-3
    # With four columns for a row it counts a quarter: labels are separable whatever they say.
    empty = np.hstack([sim.X, np.zeros((100, 360))])
    wide = AngularLogisticRegressionCV(path.C).fit(empty, sim.y).path_
    assert_allclose(wide.criterion - wide.log_loss, 0.25 * added, atol=1e-5)


@pytest.mark.parametrize("seed", [2, 3])
def test_sampled_leverages_choose_as_exact_ones_do(seed):
    """Sampling errors of sparse rows counted eight times, and only strong penalties looked safe."""
    rng = np.random.default_rng(seed)
    n, d = 1200, 3000
    topics = rng.dirichlet(np.full(d, 0.02), size=6)
    mixed = rng.dirichlet(np.full(6, 0.3), size=n)
    counts = np.array([rng.multinomial(60, p) for p in mixed @ topics])
    y = (mixed[:, :3].sum(axis=1) + 0.1 * rng.normal(size=n) > 0.5).astype(int)
    X = sparse.csr_array(np.log1p(counts.astype(float)))
    exact, sampled = (
        AngularLogisticRegressionCV(10, rarity=0.0, observables=way).fit(X, y).path_
        for way in ("exact", "auto")
    )
    assert sampled.sampling_error.max() > 0.0
    assert exact.log_loss[sampled.index] < exact.log_loss.min() + 5e-4


@pytest.mark.parametrize("pool", [False, True])
def test_a_known_link_gives_no_certainty(pool):
    """Rows far out have had no label, and n labels without an exception expect one in n + 2."""
    sim = data(200, 20)
    clf = AngularLogisticRegressionCV(link=Logit(3.0))
    clf.fit(sim.X, sim.y, pool=data(500, 20, 1).X if pool else None)
    p = clf.predict_proba(1e4 * sim.X)
    assert p.min() >= 0.9 * 202**-1.5
