r"""
1 Overconfidence, seen
======================

A logistic regression with a weak penalty, as many people fit it, on half as many labels as
features. The data are simulated, so the truth is known.
"""

from sklearn.linear_model import LogisticRegression

from angcal import Logit
from angcal.metrics import expected_calibration_error, reliability_curve
from angcal.simulation import simulate

data = simulate(500, 1000, link=Logit(scale=3, offset=1), random_state=0)
X_test, y_test = data.sample(4000, random_state=1)

model = LogisticRegression(C=200, tol=1e-8, max_iter=10_000).fit(data.X, data.y)
p = model.predict_proba(X_test)[:, 1]

# %%
# On the training rows all looks well. On new rows, compare what the model says with what happens.

curve = reliability_curve(y_test, p, n_bins=5)
for said, happened in zip(curve.mean_predicted, curve.observed, strict=True):
    print(f"says {said:.0%}, happens {happened:.0%}")
print(f"ECE {expected_calibration_error(y_test, p):.2f}")

# %%
# Low probabilities are too low and high ones too high: that is overconfidence. A calibrated model
# would stay inside the band; the histogram shows how many rows are this sure.

import matplotlib.pyplot as plt

from angcal.displays import ReliabilityDisplay

figure, ax = plt.subplots(figsize=(5, 5.6), layout="constrained")
ReliabilityDisplay.from_predictions(y_test, p, name="plain", ax=ax, histogram=True)

# %%
# Is the classifier bad? It ranks rows about as well as these labels allow. Compare two slopes
# instead: the log-odds that one standard deviation of the score claims, and the log-odds that it
# is worth.

import numpy as np

coef = model.coef_[0]
spread = data.norm(coef)
cosine = data.cosine(coef)
truth = data.calibrated_curve(np.array([-1.0, 1.0]) * spread, coef)
deserved = np.diff(np.log(truth / (1 - truth)))[0] / 2
print(f"cosine between fitted and true weights: {cosine:.2f}")
print(f"log-odds per standard deviation of the score: claimed {spread:.1f}, true {deserved:.1f}")

# %%

from scipy.special import expit

from angcal.displays import STYLES

u = np.linspace(-3, 3, 200) * spread
(blue, _, solid), (orange, _, dashed) = STYLES[:2]
figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
ax.plot(u, expit(u), color=orange, linestyle=dashed, lw=2, label="what the model claims")
ax.plot(u, data.calibrated_curve(u, coef), color=blue, linestyle=solid, lw=2, label="the truth")
ax.set(xlabel="Score of the linear model", ylabel="Probability", xlim=(u[0], u[-1]))
legend = ax.legend(frameon=False)

# %%
# The fitted weights point only roughly in the true direction. The part of them that points
# elsewhere is noise to the label, yet it lengthens the scores. A score that is mostly noise
# deserves a flatter curve. How much flatter depends on one number, the angle :math:`\theta`
# between fitted and true weights. With :math:`c = \cos\theta`, :math:`s` the score in its own
# standard deviations, :math:`\sigma` the true link and :math:`Z` standard normal,
#
# .. math:: F(s) = \mathbb{E}_Z\, \sigma\bigl(c\,s + \sqrt{1 - c^2}\, Z\bigr).
#
# This is the true curve of the picture. The next page estimates it from the same labels.
