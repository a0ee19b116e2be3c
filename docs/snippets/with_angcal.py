"""angcal on the same model."""

from sklearn.linear_model import LogisticRegression
from task import X_new, X_train, y_train

from angcal import AngularCalibratedClassifier

model = AngularCalibratedClassifier(LogisticRegression(max_iter=1000)).fit(X_train, y_train)
p = model.predict_proba(X_new)[:, 1]
