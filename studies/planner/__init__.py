"""The planner against what comes true: simulated fits, and pilots of real sets."""
