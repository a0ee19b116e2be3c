"""
2 The one-line fix
==================

The data and the model of :doc:`the page before <plot_1_overconfidence_seen>`, wrapped.
"""

from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, Logit
from angcal.metrics import expected_calibration_error, log_loss, reliability_curve
from angcal.simulation import simulate

data = simulate(500, 1000, link=Logit(scale=3, offset=1), random_state=0)
X_test, y_test = data.sample(4000, random_state=1)

model = LogisticRegression(C=200, tol=1e-8, max_iter=10_000)
clf = AngularCalibratedClassifier(model).fit(data.X, data.y)

# %%
# One model was fitted, on all 500 labels. What it says now, and what happens:

p = clf.predict_proba(X_test)[:, 1]
curve = reliability_curve(y_test, p, n_bins=5)
for said, happened in zip(curve.mean_predicted, curve.observed, strict=True):
    print(f"says {said:.0%}, happens {happened:.0%}")

# %%

import matplotlib.pyplot as plt

from angcal.displays import ReliabilityDisplay

plain = clf.estimator_.predict_proba(X_test)[:, 1]
figure, ax = plt.subplots(figsize=(5, 5.6), layout="constrained")
for name, q in (("plain", plain), ("angcal", p)):
    ReliabilityDisplay.from_predictions(y_test, q, name=name, ax=ax, histogram=True)

# %%
# The plain model is nearly always sure. The calibrated one is on the diagonal, and admits in its
# histogram that most rows cannot be told for sure.

for name, q in (("plain", plain), ("angcal", p)):
    ece = expected_calibration_error(y_test, q)
    print(f"{name}: ECE {ece:.2f}, log-loss {log_loss(y_test, q):.2f}")

# %%
# Rows are ranked as before, since the curve rises with the score; only what a score is worth has
# changed. The classifier was told nothing of the truth: it estimated link and angle from the
# leave-one-out scores that one fit gives for all rows at once. How close did it come?

import numpy as np

coef, intercept = clf.coef_[0], clf.intercept_[0]
u = X_test @ coef + intercept
truth = data.calibrated_curve(u, coef, intercept)
print(f"mean distance to the exact curve: {np.abs(p - truth).mean():.2f}")
print(f"of the plain model: {np.abs(plain - truth).mean():.2f}")

# %%

from angcal.displays import SmoothedLinkDisplay

display = SmoothedLinkDisplay.from_estimator(clf)
exact = data.calibrated_curve(display.grid, coef, intercept)
display.ax_.plot(
    display.grid, exact, color="black", ls=":", lw=2, label="exact, from the simulator"
)
legend = display.ax_.legend(frameon=False)
