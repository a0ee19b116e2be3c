"""
5 Pools and covariance
======================

What does it help to know more? The same fit four times: knowing nothing, with unlabeled rows,
with the covariance of the features, and with the link as well.
"""

from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, Logit
from angcal.simulation import simulate

link = Logit(scale=3, offset=1)
data = simulate(300, 200, link=link, random_state=1)
pool = data.pool(2000, random_state=2)
base = LogisticRegression(C=3, tol=1e-8, max_iter=10_000)

known = {
    "nothing": {},
    "a pool": {"pool": pool},
    "the covariance": {"covariance": data.covariance.matrix()},
    "covariance and link": {"covariance": data.covariance.matrix(), "link": link},
}
fitted = {
    name: AngularCalibratedClassifier(base, **options).fit(data.X, data.y)
    for name, options in known.items()
}
for name, clf in fitted.items():
    low, high = clf.angle_.interval
    print(f"{name:<20} cosine {clf.angle_.cosine:.2f}, between {low:.2f} and {high:.2f}")
cosine = data.cosine(fitted["nothing"].coef_[0])
print(f"{'the truth':<20} cosine {cosine:.2f}")

# %%

import matplotlib.pyplot as plt

from angcal.displays import STYLES

figure, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
for row, ((color, marker, _), clf) in enumerate(zip(STYLES, fitted.values(), strict=False)):
    low, high = clf.angle_.interval
    ax.plot([low, high], [row, row], color=color, lw=2)
    ax.plot(clf.angle_.cosine, row, color=color, marker=marker, ms=7)
ax.axvline(cosine, color="0.4", lw=1, label="the truth")
ax.set_yticks(range(len(fitted)), list(fitted))
ax.set(ylim=(len(fitted) - 0.5, -0.5), xlim=(0.5, 1.0), xlabel="Cosine, with its 95 % interval")
legend = ax.legend(frameon=False, loc="lower right")

# %%
# Without any of it the interval is wide. A strong signal seen badly and a weak one seen well give
# nearly the same curve, so labels alone determine the curve but not the angle. A pool or a
# covariance determines the angle. Do the *probabilities* gain from it?

import numpy as np

X_test, _ = data.sample(2000, random_state=3)
coef, intercept = clf.coef_[0], clf.intercept_[0]
scores = X_test @ coef + intercept
truth = data.calibrated_curve(scores, coef, intercept)
for name, clf in fitted.items():
    distance = np.abs(clf.predict_proba(X_test)[:, 1] - truth).mean()
    print(f"{name:<20} mean distance to the exact curve {distance:.3f}")

# %%

grid = np.linspace(*np.quantile(scores, [0.001, 0.999]), 200)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for (color, _, dash), (name, clf) in zip(STYLES, fitted.items(), strict=False):
    ax.plot(grid, clf.curve_.predict(grid), color=color, linestyle=dash, label=f"knowing {name}")
exact = data.calibrated_curve(grid, coef, intercept)
ax.plot(grid, exact, color="black", lw=1, label="the exact curve")
ax.set(xlabel="Score of the linear model", ylabel="Probability", xlim=(grid[0], grid[-1]))
legend = ax.legend(frameon=False)

# %%
# Not from the angle: labels determine the curve about as well without it. What the probabilities
# gain from is the link. The angle is worth knowing for its own sake, as the correlation between
# your score and the best linear score there is. With a known link, angle and covariance are all
# that is needed.
#
# A pool may be read in blocks, from disk or from a database; see :doc:`/guide/unlabeled_rows`.
