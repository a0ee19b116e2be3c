"""
4 Genes: far more features than labels
======================================

120 patients, 3000 expression levels, some of which rise and fall together in modules. The outcome
depends in equal parts on the modules and on many single genes, each of them weakly. Nobody can
expect the fitted weights to point well here. What one can ask for is probabilities that admit it.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, Logit
from angcal.metrics import expected_calibration_error, log_loss
from angcal.simulation import SpikedCovariance, simulate

modules = SpikedCovariance(3000, spikes=(300.0, 150.0, 75.0, 40.0), random_state=0)
genes = np.random.default_rng(0).normal(size=3000)
shared = modules.apply(genes)  # the part of such an effect that lies in the modules
effects = shared / modules.norm(shared) + genes / modules.norm(genes)
data = simulate(120, link=Logit(scale=3), covariance=modules, weights=effects, random_state=0)
X_test, y_test = data.sample(2000, random_state=1)

model = LogisticRegression(C=100, tol=1e-6, max_iter=10_000)
clf = AngularCalibratedClassifier(model).fit(data.X, data.y)

# %%
# Every training label is fitted, as always with so many features:

training = clf.estimator_.predict_proba(data.X)[np.arange(120), data.y]
print(f"smallest probability of a training label: {training.min():.2f}")

# %%
# And on new patients:

plain = clf.estimator_.predict_proba(X_test)[:, 1]
p = clf.predict_proba(X_test)[:, 1]
always = np.full(len(y_test), data.y.mean())
for name, q in (("plain", plain), ("angcal", p), ("prevalence", always)):
    ece = expected_calibration_error(y_test, q)
    print(f"{name:<10} ECE {ece:.2f}, log-loss {log_loss(y_test, q):.2f}")
print(f"cosine: estimated {clf.angle_.cosine:.2f}, true {data.cosine(clf.coef_[0]):.2f}")

# %%

import matplotlib.pyplot as plt

from angcal.displays import DecisionCurveDisplay, ReliabilityDisplay

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
for name, q in (("plain", plain), ("angcal", p)):
    ReliabilityDisplay.from_predictions(y_test, q, name=name, ax=left)
    DecisionCurveDisplay.from_predictions(y_test, q, name=name, ax=right, band=False)

# %%
# On the right, what the probabilities are worth to someone who treats every patient above a
# threshold: net benefit, in correctly treated patients for each patient seen. At high thresholds
# those who act on the plain probabilities do worse than those who treat nobody.
#
# The line *prevalence* of the table is the one to beat: probabilities that are worse than the
# prevalence of the training labels do harm.
#
# Leave-one-out scores cost nothing extra, even where there are this many features: one
# factorization of the smaller side, 120 × 120, gives all of them.

print(clf.observables_.side, clf.observables_.loo_scores.shape)
