"""One picture of every display, drawn when the site is built.

Pages show them by ``.. plot:: display_pictures.py ReliabilityDisplay``: a function for each
display, which bears its name.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV, Logit, displays
from angcal.links.multiclass import Softmax
from angcal.planner import plan_from_assumptions
from angcal.simulation import Simulation, simulate, simulate_multiclass


def two_classes() -> tuple[Simulation, AngularCalibratedClassifier]:
    """Half as many labels as features, and a weak penalty."""
    data = simulate(200, 400, link=Logit(scale=3), random_state=0)
    model = LogisticRegression(C=100, tol=1e-6, max_iter=10_000)
    return data, AngularCalibratedClassifier(model).fit(data.X, data.y)


def predictions() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Labels of new rows, and what the model says of them, plain and calibrated."""
    data, clf = two_classes()
    X, y = data.sample(2000, random_state=1)
    models = {"plain": clf.estimator_, "angcal": clf}
    return y, {name: model.predict_proba(X)[:, 1] for name, model in models.items()}


def several_classes() -> tuple[np.ndarray, np.ndarray]:
    """Labels and calibrated probabilities of new rows of four classes."""
    data = simulate_multiclass(300, 100, n_indices=4, signal=3, random_state=0)
    clf = AngularCalibratedClassifier(LogisticRegression(max_iter=1000)).fit(data.X, data.y)
    new = data.fresh(2000, random_state=1)
    return new.y, clf.predict_proba(new.X)


def ReliabilityDisplay() -> None:
    """Plain and calibrated probabilities of the same rows."""
    import matplotlib.pyplot as plt

    y, found = predictions()
    ax = plt.subplots(figsize=(5, 5.6), layout="constrained")[1]
    for name, p in found.items():
        displays.ReliabilityDisplay.from_predictions(y, p, name=name, ax=ax, histogram=True)


def ClasswiseReliabilityDisplay() -> None:
    """Four classes."""
    displays.ClasswiseReliabilityDisplay.from_predictions(*several_classes(), n_bins=8)


def ComparisonDisplay() -> None:
    """Plain and calibrated probabilities, and the prevalence."""
    y, found = predictions()
    displays.ComparisonDisplay.from_predictions(
        y, {**found, "prevalence": np.full(len(y), y.mean())}
    )


def DecisionCurveDisplay() -> None:
    """Plain and calibrated probabilities of the same rows."""
    import matplotlib.pyplot as plt

    y, found = predictions()
    ax = plt.subplots(figsize=(5.5, 4), layout="constrained")[1]
    for name, p in found.items():
        displays.DecisionCurveDisplay.from_predictions(y, p, name=name, ax=ax)


def SmoothedLinkDisplay() -> None:
    """The calibrated curve beside the sigmoid of the plain model."""
    displays.SmoothedLinkDisplay.from_estimator(two_classes()[1])


def AngleDisplay() -> None:
    """An angle that the covariance of the features determines."""
    data = simulate(300, 200, link=Logit(scale=3), random_state=0)
    clf = AngularCalibratedClassifier(covariance=data.covariance.matrix()).fit(data.X, data.y)
    displays.AngleDisplay.from_estimator(clf)


def AngleMatrixDisplay() -> None:
    """Angles of four classes whose signals have a known covariance."""
    data = simulate_multiclass(600, 100, n_indices=4, signal=3, random_state=0)
    link = Softmax(4, covariance=data.index_covariance)
    model = LogisticRegression(max_iter=1000)
    clf = AngularCalibratedClassifier(model, link=link).fit(data.X, data.y)
    displays.AngleMatrixDisplay.from_estimator(clf)


def PenaltyPathDisplay() -> None:
    """Ten penalties."""
    data = simulate(200, 400, link=Logit(scale=3), random_state=0)
    displays.PenaltyPathDisplay.from_estimator(
        AngularLogisticRegressionCV(Cs=10).fit(data.X, data.y)
    )


def PlanDisplay() -> None:
    """What more labels of a hundred features would give."""
    plan = plan_from_assumptions(100, ceiling=0.85, n=[100, 200, 400, 800, 1600])
    displays.PlanDisplay.from_plan(plan, "accuracy")
