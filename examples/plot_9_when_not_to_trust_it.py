"""
9 When not to trust it
======================

Calibration is a promise about rows like the training rows. Here is where it changes nothing, and
three ways to break it.

Plenty of labels
----------------

With many labels for each feature logistic regression is calibrated by itself. angcal then neither
harms nor helps.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, Logit
from angcal.metrics import expected_calibration_error, log_loss
from angcal.simulation import simulate

data = simulate(4000, 10, link=Logit(scale=3), random_state=0)
X_test, y_test = data.sample(4000, random_state=1)
clf = AngularCalibratedClassifier(LogisticRegression(C=1000)).fit(data.X, data.y)
for name, model in (("plain", clf.estimator_), ("angcal", clf)):
    p = model.predict_proba(X_test)[:, 1]
    print(f"{name}: ECE {expected_calibration_error(y_test, p):.2f}")

# %%
# Rows that belong together
# -------------------------
#
# Leaving one row out leaves its relatives in: copies from oversampling, repeated measurements,
# other visits of the same patient. Exact copies are noticed, with a warning. Whether two rows are
# of the same patient only you can know.

rng = np.random.default_rng(0)
effects = 3 * rng.normal(size=150) / np.sqrt(150)


def visits(patients):
    """Five visits of each patient, who has habits of their own in features and in outcome."""
    patient = np.repeat(np.arange(patients), 5)
    habits, luck = rng.normal(size=(patients, 150)), 2 * rng.normal(size=patients)
    X = (habits[patient] + rng.normal(size=(5 * patients, 150))) / np.sqrt(2)
    y = rng.random(5 * patients) < 1 / (1 + np.exp(-(X @ effects + luck[patient])))
    return X, y.astype(int), patient


X, y, patient = visits(60)
X_new, y_new, _ = visits(600)
model = LogisticRegression(max_iter=1000)
fitted = {
    "row by row": AngularCalibratedClassifier(model).fit(X, y),
    "patient by patient": AngularCalibratedClassifier(model).fit(X, y, groups=patient),
}
for name, clf in fitted.items():
    expected = log_loss(y, clf.loo_proba_[:, 1])
    p = clf.predict_proba(X_new)[:, 1]
    loss, ece = log_loss(y_new, p), expected_calibration_error(y_new, p)
    print(f"{name}: expects log-loss {expected:.2f}, new patients {loss:.2f}, ECE {ece:.2f}")

# %%

import matplotlib.pyplot as plt

from angcal.displays import ReliabilityDisplay

figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
for name, clf in fitted.items():
    ReliabilityDisplay.from_estimator(clf, X_new, y_new, name=name, ax=ax)

# %%
# Rows left out one by one promise too much, and the probabilities of new patients are too
# extreme. ``groups=`` leaves out all visits of a patient together, still from one fit; see
# :doc:`/guide/groups`.
#
# Rows from elsewhere
# -------------------
#
# The curve holds for scores that are distributed as in training. If new rows come from another
# population, the part of the signal that the score does not see changes with it.

few = simulate(150, 150, link=Logit(scale=3), random_state=0)
clf = AngularCalibratedClassifier(LogisticRegression(C=20, max_iter=10_000)).fit(few.X, few.y)
X_near, y_near = few.sample(4000, random_state=1)
X_far = X_near + 2 * few.covariance.apply(few.weights)  # the signal of every row is 2 higher
chance = few.link((X_far - few.mean) @ few.weights)
y_far = (np.random.default_rng(2).random(len(chance)) < chance).astype(int)

figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
for name, X_rows, labels in (("like training", X_near, y_near), ("shifted", X_far, y_far)):
    p = clf.predict_proba(X_rows)[:, 1]
    print(f"{name}: says {p.mean():.0%} on average, happens {labels.mean():.0%}")
    ReliabilityDisplay.from_predictions(labels, p, name=name, ax=ax)

# %%
# No calibrator that has seen only training rows can know of the shift. Compare the scores of new
# rows with ``clf.scale_`` from time to time. If only the share of the classes differs, see
# :doc:`/guide/prevalence`.
#
# A relation that is not one rising curve
# ---------------------------------------
#
# If both low and high scores mean "positive", no rising curve is right. The leave-one-out scores
# are still honest: look at them before you believe a curve.

bent = simulate(400, 40, link=Logit(scale=3), random_state=3)
positive = 0.1 + 0.8 * (np.abs(bent.signal - 0.5) > 1)
y_bent = (np.random.default_rng(3).random(400) < positive).astype(int)
clf = AngularCalibratedClassifier(LogisticRegression()).fit(bent.X, y_bent)
scores = clf.observables_.loo_scores
parts = np.array_split(np.argsort(scores), 3)
for name, rows in zip(("low", "middle", "high"), parts, strict=True):
    says, happens = clf.curve_.predict(scores[rows]).mean(), y_bent[rows].mean()
    print(f"{name:<6} scores: says {says:.0%}, happens {happens:.0%}")

# %%

from angcal.displays import SmoothedLinkDisplay

display = SmoothedLinkDisplay.from_estimator(clf)
tenths = np.array_split(np.argsort(scores), 10)
middle, share = [scores[rows].mean() for rows in tenths], [y_bent[rows].mean() for rows in tenths]
display.ax_.plot(middle, share, "ks", ms=5, label="share of positives in a tenth of the rows")
legend = display.ax_.legend(frameon=False, loc="upper left")

# %%
# All of this is for a linear model or a linear last layer, and a ranking needs no calibration at
# all. If only the probabilities matter, and nothing is known of link or covariance, Platt scaling
# on the same leave-one-out scores, :class:`ScoreCalibratedClassifier(model)
# <angcal.ScoreCalibratedClassifier>`, is about as good.
