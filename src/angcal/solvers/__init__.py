"""Solvers: conjugate gradients, Newton over any storage, and L-BFGS for any loss and penalty."""
