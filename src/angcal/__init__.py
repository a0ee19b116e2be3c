"""Calibrated probabilities for linear classifiers when features rival labels.

Names are imported when they are first asked for, so that ``angcal --version`` need not load NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from angcal._lazy import found_in

if TYPE_CHECKING:
    from angcal.angle import Angle
    from angcal.baselines import (
        BetaCalibration,
        HistogramBinning,
        IsotonicCalibration,
        PlattScaling,
        TemperatureScaling,
        platt_limit,
    )
    from angcal.estimators import (
        AngularCalibratedClassifier,
        AngularLogisticRegressionCV,
        MEstimator,
        Prevalence,
        ScoreCalibratedClassifier,
        with_prevalence,
        with_prevalence_from,
    )
    from angcal.leverages import SingularHessianError
    from angcal.links import (
        CallableLink,
        Cauchit,
        ClippedLinear,
        ComplementaryLogLog,
        Link,
        Logit,
        Probit,
    )
    from angcal.losses import (
        Exponential,
        HuberisedHinge,
        Logistic,
        Loss,
        ProbitLikelihood,
        Squared,
        SquaredHinge,
    )
    from angcal.multiclass import AngleMatrix
    from angcal.notices import (
        AngleWarning,
        OptimalityWarning,
        PenaltyWarning,
        PoolWarning,
        RepeatedRowsWarning,
    )
    from angcal.observables import Observables
    from angcal.penalties import (
        ElasticNet,
        Lasso,
        NoPenalty,
        Penalty,
        PseudoHuber,
        Quadratic,
        Ridge,
    )
    from angcal.problem import SeparableDataError
    from angcal.sklearn_problems import LinearHead, problem_of

__version__ = "0.1.0"

# Modules of the names below, those first that load least.
HOMES = (
    "notices",
    "links",
    "losses",
    "penalties",
    "angle",
    "baselines",
    "leverages",
    "observables",
    "problem",
    "sklearn_problems",
    "multiclass",
    "estimators",
)

__all__ = [
    "Angle",
    "AngleMatrix",
    "AngleWarning",
    "AngularCalibratedClassifier",
    "AngularLogisticRegressionCV",
    "BetaCalibration",
    "CallableLink",
    "Cauchit",
    "ClippedLinear",
    "ComplementaryLogLog",
    "ElasticNet",
    "Exponential",
    "HistogramBinning",
    "HuberisedHinge",
    "IsotonicCalibration",
    "Lasso",
    "LinearHead",
    "Link",
    "Logistic",
    "Logit",
    "Loss",
    "MEstimator",
    "NoPenalty",
    "Observables",
    "OptimalityWarning",
    "Penalty",
    "PenaltyWarning",
    "PlattScaling",
    "PoolWarning",
    "Prevalence",
    "Probit",
    "ProbitLikelihood",
    "PseudoHuber",
    "Quadratic",
    "RepeatedRowsWarning",
    "Ridge",
    "ScoreCalibratedClassifier",
    "SeparableDataError",
    "SingularHessianError",
    "Squared",
    "SquaredHinge",
    "TemperatureScaling",
    "platt_limit",
    "problem_of",
    "with_prevalence",
    "with_prevalence_from",
]


def __getattr__(name: str) -> Any:
    return found_in(__name__, name, __all__, HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
