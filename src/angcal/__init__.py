"""Calibrated probabilities for linear classifiers when features rival labels."""
