"""
8 How sure is a probability?
============================

Two questions, and two intervals. How well do the labels determine the curve from score to
probability? And how far may the probability of one row be from that of all rows with its score?
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, Logit
from angcal.simulation import simulate

data = simulate(300, 100, link=Logit(scale=3, offset=1), random_state=0)
X_test, _ = data.sample(400, random_state=1)
clf = AngularCalibratedClassifier(
    LogisticRegression(tol=1e-8), covariance=data.covariance.matrix()
).fit(data.X, data.y)

intervals = {
    kind: clf.predict_interval(X_test, kind=kind, confidence=0.9) for kind in ("curve", "row")
}
for kind, interval in intervals.items():
    print(f"{kind:<5} mean width {np.diff(interval).mean():.2f}")

# %%
# The simulator knows both truths: the exact curve, and the probability of every single row.

coef, intercept = clf.coef_[0], clf.intercept_[0]
scores = X_test @ coef + intercept
truths = {
    "curve": data.calibrated_curve(scores, coef, intercept),
    "row": data.link((X_test - data.mean) @ data.weights),
}
for kind, truth in truths.items():
    low, high = intervals[kind].T
    held = np.mean((low <= truth) & (truth <= high))
    print(f"{kind:<5} the interval holds {held:.0%} of the truths")

# %%

import matplotlib.pyplot as plt

from angcal.displays import STYLES

order = np.argsort(scores)
(blue, _, _), (orange, _, dashed) = STYLES[:2]
figure, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
shown = (("row", orange, 0.15, "of a row"), ("curve", blue, 0.35, "of the curve"))
for kind, color, alpha, label in shown:
    low, high = intervals[kind][order].T
    ax.fill_between(scores[order], low, high, color=color, alpha=alpha, lw=0, label=label)
ax.plot(scores, truths["row"], ".", color=orange, ms=4, label="true probability of a row")
ax.plot(scores[order], truths["curve"][order], color="black", lw=1, label="the exact curve")
p = clf.predict_proba(X_test)[:, 1]
ax.plot(scores[order], p[order], color=blue, linestyle=dashed, label="predict_proba")
ax.set(xlabel="Score of the linear model", ylabel="Probability")
legend = ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))

# %%
# All scores share one curve, so that of one fit most intervals of the curve hold the truth
# together or miss it together. More labels narrow them. The interval of a row stays wide: rows
# with the same score differ by what the fitted weights have not found, and calibrated
# probabilities are right on average over such rows, not for each of them. Show a patient the
# probability, and keep in mind that a better score may move it.
#
# How the intervals are made, and how often they hold the truth: :doc:`/intervals`.
