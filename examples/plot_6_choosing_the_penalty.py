"""
6 Choosing the penalty
======================

Even against odd digits again, with 150 labels. One path of ridge penalties and no folds: each
penalty is judged by the leave-one-out log-loss of its *calibrated* probabilities.
"""

import numpy as np
from sklearn.datasets import load_digits

from angcal import AngularLogisticRegressionCV

images, digit = load_digits(return_X_y=True)
X, y = images / 16, digit % 2
order = np.random.default_rng(0).permutation(len(y))
train, test = order[:150], order[150:]

tuned = AngularLogisticRegressionCV(Cs=[0.01, 0.1, 1.0, 10.0, 100.0]).fit(X[train], y[train])
path = tuned.path_
print("       C  calibrated  uncalibrated")
for C, ours, plain in zip(path.C, path.log_loss, path.uncalibrated_log_loss, strict=True):
    print(f"{C:8g}  {ours:10.2f}  {plain:12.2f}")

# %%

from angcal.displays import PenaltyPathDisplay

display = PenaltyPathDisplay.from_estimator(tuned, show=["log_loss", "ece"])

# %%
# Read the two curves. Without calibration a weak penalty is punished because its scores are too
# long, and a strong one because they are too short. With it only the direction of the weights
# counts, and the choice is less delicate.

from angcal.metrics import log_loss

p = tuned.predict_proba(X[test])[:, 1]
chosen = path.log_loss[path.index]
print(f"C {tuned.C_:g}: expected log-loss {chosen:.2f}, on test rows {log_loss(y[test], p):.2f}")

# %%
# The path also says how many degrees of freedom each penalty leaves, of 64 pixels and an
# intercept:

print(f"{X.shape[1]} pixels")
for C, freedom in zip(path.C, path.degrees_of_freedom, strict=True):
    print(f"{C:8g}  {freedom:4.0f}")
