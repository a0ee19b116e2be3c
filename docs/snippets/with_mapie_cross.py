"""MAPIE: cross Venn-ABERS, five folds."""

from mapie.calibration import VennAbersCalibrator
from sklearn.linear_model import LogisticRegression
from task import X_new, X_train, y_train

base = LogisticRegression(max_iter=1000)
model = VennAbersCalibrator(base, inductive=False, n_splits=5, random_state=0)
model.fit(X_train, y_train)
p = model.predict_proba(X_new)[:, 1]
