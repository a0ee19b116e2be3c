"""
7 Ten digits
============

Any number of classes takes the same call. Here all ten digits are to be recognized from 150
labels and 256 features, the fixed random layer of :doc:`page 3
<plot_3_embeddings_with_few_labels>`, with scikit-learn's default penalty.
"""

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier
from angcal.metrics import multiclass_log_loss, top_label_ece

images, y = load_digits(return_X_y=True)
layer = np.random.default_rng(0).normal(size=(64, 256)) / 8
X = np.maximum((images / 16 - 0.3) @ layer, 0)
train, test = np.split(np.random.default_rng(0).permutation(len(y)), [150])

base = LogisticRegression()
models = {
    "plain, 1 fit": base,
    "angcal, 1 fit": AngularCalibratedClassifier(base),
    "5-fold sigmoid, 5 fits": CalibratedClassifierCV(base, cv=5),
    "5-fold temperature, 5 fits": CalibratedClassifierCV(base, method="temperature", cv=5),
}
probabilities = {
    name: model.fit(X[train], y[train]).predict_proba(X[test]) for name, model in models.items()
}
for name, P in probabilities.items():
    loss, ece = multiclass_log_loss(y[test], P), top_label_ece(y[test], P)
    sure, right = P.max(axis=1).mean(), (P.argmax(axis=1) == y[test]).mean()
    print(f"{name:<26} says {sure:.0%}, right {right:.0%}, ECE {ece:.2f}, log-loss {loss:.2f}")

# %%
# This time the plain model is not confident enough: its penalty shortens the scores more than
# overfitting lengthens them. One sigmoid for each class makes it worse. One temperature for all
# classes, found on five folds, mends it, and so does angcal, from one fit. With more than two
# classes the diagram shows how often the likeliest class is right.

import matplotlib.pyplot as plt

from angcal.displays import ReliabilityDisplay

figure, ax = plt.subplots(figsize=(5.4, 6), layout="constrained")
for name, P in probabilities.items():
    ReliabilityDisplay.from_predictions(
        y[test], P, n_bins=8, strategy="quantile", name=name, ax=ax, band=False, histogram=True
    )

# %%
# ``calibration_`` says which map was used and why, with the leave-one-out log-losses that
# decided:

found = models["angcal, 1 fit"].calibration_
print(found.method)
for method, loss in found.losses.items():
    print(f"{method:<12} {loss:.2f}")

# %%
# And class by class, each with the band in which a calibrated model stays:

from angcal.displays import ClasswiseReliabilityDisplay

P = probabilities["angcal, 1 fit"]
display = ClasswiseReliabilityDisplay.from_predictions(y[test], P, n_bins=5, columns=5)

# %%
# More on :doc:`three and more classes </multiclass>`.
