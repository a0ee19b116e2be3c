"""
3 Embeddings with few labels
============================

A frozen network turns inputs into a few hundred numbers. Labels are expensive, rows without
labels are free. Here the "network" is a fixed layer of 256 rectified random projections of
scikit-learn's digits. Two questions are asked of it: is the digit five or more, and is it even?
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

images, digit = load_digits(return_X_y=True)
layer = np.random.default_rng(0).normal(size=(64, 256)) / 8
X = np.maximum((images / 16 - 0.3) @ layer, 0)


def base():
    return make_pipeline(StandardScaler(), LogisticRegression(C=10, tol=1e-6, max_iter=10_000))


# %%
# There are 150 labels, 800 rows without, and the rest for the test; five such splits for each
# question.

from sklearn.calibration import CalibratedClassifierCV

from angcal import AngularCalibratedClassifier
from angcal.metrics import expected_calibration_error, log_loss

contenders = {
    "plain, 1 fit": lambda pool: base(),
    "angcal, 1 fit": lambda pool: AngularCalibratedClassifier(base()),
    "angcal with pool, 1 fit": lambda pool: AngularCalibratedClassifier(base(), pool=pool),
    "5-fold sigmoid, 5 fits": lambda pool: CalibratedClassifierCV(base(), cv=5),
}
questions = {"five or more": (digit >= 5).astype(int), "even": (digit % 2 == 0).astype(int)}


def split(seed):
    """150 rows with labels, 800 without, the rest to test."""
    return np.split(np.random.default_rng(seed).permutation(len(digit)), [150, 950])


def judged(make, y, seed):
    """Log-loss and ECE of one contender on one split."""
    train, pool, test = split(seed)
    p = make(X[pool]).fit(X[train], y[train]).predict_proba(X[test])[:, 1]
    return log_loss(y[test], p), expected_calibration_error(y[test], p)


found = {
    question: np.array([[judged(make, y, k) for k in range(5)] for make in contenders.values()])
    for question, y in questions.items()
}
for question, values in found.items():
    print(question)
    for name, (loss, ece) in zip(contenders, values.mean(axis=1), strict=True):
        print(f"  {name:<24} ECE {ece:.2f}, log-loss {loss:.2f}")

# %%
# Dots are means over the splits and bars their standard errors; further left is better.

import matplotlib.pyplot as plt

from angcal.displays import ComparisonDisplay

figure = plt.figure(figsize=(7, 4.8), layout="constrained")
for (question, values), part in zip(found.items(), figure.subfigures(2), strict=True):
    part.suptitle(question)
    mean, error = values.mean(axis=1).T, values.std(axis=1, ddof=1).T / np.sqrt(5)
    metrics = ("log-loss", "ECE")
    display = ComparisonDisplay(
        list(contenders),
        dict(zip(metrics, mean, strict=True)),
        dict(zip(metrics, error, strict=True)),
    )
    display.plot(part.subplots(1, 2))

# %%
# Read both columns, and both questions. angcal has about half the ECE of the five folds and the
# lower log-loss, from a fifth of the fits. The pool does not help the probabilities. What it
# narrows is the interval of the angle between fitted and true weights:

from angcal.displays import AngleDisplay

y = questions["five or more"]
train, pool, _ = split(0)
figure, axes = plt.subplots(1, 2, figsize=(9, 6), layout="constrained")
for ax, (name, rows) in zip(axes, (("without", None), ("with pool", X[pool])), strict=True):
    clf = AngularCalibratedClassifier(base(), pool=rows).fit(X[train], y[train])
    low, high = clf.angle_.interval
    print(f"{name}: cosine {clf.angle_.cosine:.2f}, between {low:.2f} and {high:.2f}")
    AngleDisplay.from_estimator(clf, ax=ax)
    ax.set_title(name)

# %%
# For a head that was trained in PyTorch pass its weights as a :class:`~angcal.LinearHead`,
# together with the rows it was trained on; see :doc:`/guide/calibrate`.
