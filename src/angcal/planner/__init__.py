"""How many more labels: learning curves from a pilot, or from assumptions."""

from angcal.planner.forecast import plan_from_assumptions, plan_from_pilot
from angcal.planner.result import Plan, criteria_of_riley

__all__ = ["Plan", "criteria_of_riley", "plan_from_assumptions", "plan_from_pilot"]
