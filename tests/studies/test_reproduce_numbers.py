"""The paper's printed numbers: trials against independent computations, tables against hands."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from angcal.baselines import platt_limit
from angcal.simulation import simulate
from studies.engine.tables import markdown, mean_and_error, rmse_and_error, with_error
from studies.paper.draw_figures import exact_interval, implied_by_limit, tail_share, where
from studies.paper.draws import COLUMNS, DRAWS, LINK, Settings, population_platt, run
from studies.paper.setting import PAPER_LINKS, PROBIT_UNIT, FittedDraw, paper_inner_product

SMALL = Settings(draws=3, n=120, d=240, sign_labels=50, platt_labels=500)


@pytest.fixture(scope="module")
def draw() -> FittedDraw:
    return FittedDraw.of(simulate(200, 300, link=LINK, random_state=4))


def printed_formula(X, y, coef, Sigma, strength, gamma=None):
    """Eq. (bellec), written out with dense matrices and nothing of the library."""
    n, d = X.shape
    u = X @ coef
    p = expit(u)
    psi, D = y - p, np.diag(p * (1 - p))
    H = np.linalg.inv(X.T @ D @ X + n * strength / d * np.eye(d))
    smoother = X @ H @ X.T @ D
    v = np.trace(D - D @ X @ H @ X.T @ D) / n
    df = np.trace(smoother)
    g = df / (n * v) if gamma is None else df
    r2 = psi @ psi / n
    rest = np.sum((u - g * psi) ** 2)
    numerator = (v / n * rest + psi @ u / n - g * r2) ** 2
    pull = X.T @ psi
    denominator = pull @ np.linalg.solve(Sigma, pull) / n**2 + 2 * v / n * psi @ u
    denominator += v**2 / n * rest - d / n * r2
    return np.sqrt(numerator / denominator)


@pytest.mark.parametrize("printed", [False, True])
def test_the_papers_formula(draw, printed):
    from angcal.covariance import precision

    data, fit = draw.data, draw.fit
    inverse = precision(data.covariance, None, fit.X, centered=False)
    gamma = draw.observables.degrees_of_freedom if printed else None
    found = paper_inner_product(draw.observables, fit, inverse, gamma=gamma)
    expected = printed_formula(
        data.X, data.y, fit.coef, data.covariance.matrix(), 0.5, gamma="df" if printed else None
    )
    assert found == pytest.approx(expected, rel=1e-6)
    # The printed γ̂ is no estimate of a number below 1; the other one is.
    assert (found > 2.0) == printed


def test_routes_at_half_the_price(draw):
    angles = draw.angles()
    for route, angle in angles.items():
        assert angle.cosine == draw.calibrated(route).angle.cosine


def test_a_trial_gives_its_columns_and_the_same_digits_again():
    first, again = run(SMALL, {"draw": 1})[""], run(SMALL, {"draw": 1})[""]
    assert first == again
    (row,) = first
    assert set(row) == set(COLUMNS)
    assert row["inner"] == pytest.approx(row["cosine"] * row["norm"], rel=1e-5)
    assert run(SMALL, {"draw": 2})[""] != first


def test_limit_of_platt_scaling_minimizes_the_expected_loss(draw):
    """Against a direct minimization over fresh rows, 400,000 of them: error about 0.003."""
    best = population_platt(draw, LINK)
    scores, signal = draw.data.fresh_scores(draw.fit.coef, 400_000, 1)
    truth = LINK(signal)

    def loss(parameters):
        p = np.clip(LINK(parameters[0] * scores + parameters[1]), 1e-12, 1 - 1e-12)
        return -np.mean(truth * np.log(p) + (1 - truth) * np.log(1 - p))

    found = minimize(loss, [best.slope_, best.intercept_], method="Nelder-Mead").x
    assert found == pytest.approx([best.slope_, best.intercept_], abs=0.01)
    assert loss(found) > loss([best.slope_, best.intercept_]) - 1e-5


def test_limit_is_the_papers_for_a_probit_link():
    probit = PAPER_LINKS["probit"]
    draw = FittedDraw.of(simulate(200, 300, link=probit, random_state=5))
    best = population_platt(draw, probit)
    expected = platt_limit(draw.cosine, draw.norm, probit)
    assert (best.slope_, best.intercept_) == pytest.approx(expected, abs=1e-6)


def test_printed_limit_inverts():
    cosine, norm = 0.6, 0.8
    a, b = platt_limit(cosine, norm, PAPER_LINKS["probit"])
    assert implied_by_limit(a, b) == pytest.approx((cosine, norm, cosine * norm))
    assert PAPER_LINKS["probit"].scale == pytest.approx(3 * PROBIT_UNIT)


def test_probit_link_of_the_study_is_near_its_sigmoid():
    t = np.linspace(-6, 6, 2001)
    assert np.abs(PAPER_LINKS["probit"](t) - LINK(t)).max() < 0.02


def test_shares():
    sample = [1.0, 2.0, 3.0, 4.0]
    assert tail_share(sample, 1.5) == 0.25
    assert tail_share(sample, 9.0) == 0.0
    assert where(sample, 2.0) == "50.0% of draws are below"
    # Rule of three: no event in 5000 leaves up to about 3.7/5000 at 97.5 %.
    low, high = exact_interval(0, 5000)
    assert low == 0.0
    assert high == pytest.approx(1 - 0.025 ** (1 / 5000))
    assert exact_interval(5, 5)[1] == 1.0


def test_errors_of_means():
    assert mean_and_error([1.0, 3.0]) == pytest.approx((2.0, 1.0))
    # mean(e²) = 5 with error √(32/2)= 4; √5 and 4/(2√5)
    assert rmse_and_error([1.0, 3.0]) == pytest.approx((np.sqrt(5), 4 / (2 * np.sqrt(5))))
    assert with_error(0.12345, 0.00678, 3) == "0.123 ± 0.007"


def test_markdown():
    assert markdown(("a", "b"), [("x|y", "1")]) == "| a | b |\n| --- | --- |\n| x\\|y | 1 |"


def test_settings_are_the_papers():
    assert (DRAWS.full.n, DRAWS.full.d, DRAWS.full.draws) == (1000, 2000, 5000)
