"""The scikit-learn surface: one fit in, calibrated probabilities out."""

from angcal.estimators.angular import AngularCalibratedClassifier
from angcal.estimators.m_estimator import MEstimator
from angcal.estimators.penalty_cv import AngularLogisticRegressionCV
from angcal.estimators.prevalence import Prevalence, with_prevalence, with_prevalence_from
from angcal.estimators.score import ScoreCalibratedClassifier

__all__ = [
    "AngularCalibratedClassifier",
    "AngularLogisticRegressionCV",
    "MEstimator",
    "Prevalence",
    "ScoreCalibratedClassifier",
    "with_prevalence",
    "with_prevalence_from",
]
