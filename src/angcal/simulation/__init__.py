"""Data whose truth is known: P(y = 1 | x) = σ(w*ᵀ(x − mean)) with ‖w*‖_Σ = 1.

`simulate_several` has K such indices in place of one, and any number of classes.
"""

from __future__ import annotations

from angcal.simulation.covariances import (
    AutoregressiveCovariance,
    Covariance,
    GivenCovariance,
    IdentityCovariance,
    SpikedCovariance,
)
from angcal.simulation.designs import DESIGNS
from angcal.simulation.model import SimulatedLabels, Simulation, simulate, simulate_labels
from angcal.simulation.multiclass import SeveralSimulation, simulate_several

__all__ = [
    "DESIGNS",
    "AutoregressiveCovariance",
    "Covariance",
    "GivenCovariance",
    "IdentityCovariance",
    "SeveralSimulation",
    "SimulatedLabels",
    "Simulation",
    "SpikedCovariance",
    "simulate",
    "simulate_labels",
    "simulate_several",
]
