"""angcal, which chooses the penalty too."""

from task import X_new, X_train, y_train

from angcal import AngularLogisticRegressionCV

model = AngularLogisticRegressionCV().fit(X_train, y_train)
p = model.predict_proba(X_new)[:, 1]
