"""Data whose truth is known: P(y = 1 | x) = σ(w*ᵀ(x − mean)) with ‖w*‖_Σ = 1.

`simulate_multiclass` has K such indices in place of one, and any number of classes.
"""

from __future__ import annotations

from angcal.simulation.covariances import (
    DESIGNS,
    AutoregressiveCovariance,
    Covariance,
    GivenCovariance,
    IdentityCovariance,
    SpikedCovariance,
)
from angcal.simulation.model import SimulatedLabels, Simulation, simulate, simulate_labels
from angcal.simulation.multiclass import MulticlassSimulation, simulate_multiclass

# Earlier names of the two.
SeveralSimulation, simulate_several = MulticlassSimulation, simulate_multiclass

__all__ = [
    "DESIGNS",
    "AutoregressiveCovariance",
    "Covariance",
    "GivenCovariance",
    "IdentityCovariance",
    "MulticlassSimulation",
    "SeveralSimulation",
    "SimulatedLabels",
    "Simulation",
    "SpikedCovariance",
    "simulate",
    "simulate_labels",
    "simulate_multiclass",
    "simulate_several",
]
