"""A table in, a calibrated model out."""

from __future__ import annotations

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from angcal import AngularLogisticRegressionCV, Logit  # noqa: E402
from angcal.simulation import simulate  # noqa: E402
from angcal.tables import TableError, fit_table, preparation  # noqa: E402

DATA = simulate(200, 60, link=Logit(scale=3), random_state=0)
POOL = simulate(300, 60, link=Logit(scale=3), random_state=1).X
NAMES = [f"x{j}" for j in range(60)]


def table(X=DATA.X):
    return pd.DataFrame(X, columns=NAMES)


def test_is_the_estimator_on_prepared_rows():
    fitted = fit_table(table(), DATA.y.astype(int))
    X = preparation(table()).fit_transform(table())
    alone = AngularLogisticRegressionCV().fit(X, DATA.y.astype(int))
    np.testing.assert_array_equal(fitted.model.predict_proba(table()), alone.predict_proba(X))
    assert (fitted.n, fitted.d) == (200, 60)
    assert fitted.classes.tolist() == [0, 1]
    assert fitted.dropped == ()


def test_number_of_penalties_is_passed_on():
    assert len(fit_table(table(), DATA.y, Cs=5).classifier.Cs_) == 5


def test_pool_passes_through_the_same_preparation():
    frame, pool = table(), table(POOL)
    frame["kind"] = ["a", "b"] * 100
    pool["kind"], pool["not asked for"] = "a", 1.0
    fitted = fit_table(frame, DATA.y, pool=pool)
    prepare = fitted.model.named_steps["prepare"]
    alone = AngularLogisticRegressionCV().fit(
        prepare.transform(frame), DATA.y, pool=prepare.transform(pool)
    )
    assert fitted.classifier.scale_.source == "pool"
    assert fitted.classifier.angle_ == alone.angle_


def test_pool_is_not_kept_in_the_model():
    assert fit_table(table(), DATA.y, pool=table(POOL)).classifier.pool is None


def test_pool_without_a_column():
    with pytest.raises(TableError, match=r"the pool lacks 1 of the 60 columns .*: 'x7'"):
        fit_table(table(), DATA.y, pool=table(POOL).drop(columns="x7"))


def test_new_rows_need_only_the_columns_that_are_used():
    frame = table()
    frame["when"] = pd.date_range("2020-01-01", periods=200)
    fitted = fit_table(frame, DATA.y)
    assert [name for name, _ in fitted.dropped] == ["when"]
    shuffled = frame[NAMES[::-1]]
    np.testing.assert_array_equal(
        fitted.model.predict_proba(shuffled), fitted.model.predict_proba(frame)
    )


def test_text_classes():
    y = np.where(DATA.y == 1, "yes", "no")
    fitted = fit_table(table(), y)
    assert fitted.classes.tolist() == ["no", "yes"]
    assert set(fitted.model.predict(table())) <= {"no", "yes"}


@pytest.mark.filterwarnings("ignore:Calibration does not pay here")
def test_three_classes():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 3
    centers = 0.7 * rng.normal(size=(3, 5))
    frame = pd.DataFrame(rng.normal(size=(200, 5)) + centers[y], columns=list("abcde"))
    fitted = fit_table(frame, y, Cs=5)
    assert fitted.classes.tolist() == [0, 1, 2]
    X = preparation(frame).fit_transform(frame)
    alone = AngularLogisticRegressionCV(Cs=5).fit(X, y)
    assert fitted.classifier.C_ == alone.C_
    np.testing.assert_array_equal(fitted.model.predict_proba(frame), alone.predict_proba(X))
    p = fitted.model.predict_proba(frame)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(fitted.model.predict(frame) == y) > 0.6
    rows = rng.normal(size=(400, 5)) + centers[np.arange(400) % 3]
    pooled = fit_table(frame, y, Cs=5, pool=pd.DataFrame(rows, columns=list("abcde")))
    assert pooled.classifier.angle_.method == "observable"


def test_too_few_rows():
    with pytest.raises(ValueError, match="at least 5"):
        fit_table(pd.DataFrame({"a": [0.3, 1.0, 7.0]}), np.array([0, 1, 1]))
