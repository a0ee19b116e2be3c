"""Designs, containers, labels, weights, pools, covariances and options that mean no good.

:mod:`studies.hostile.cases` has the strategies of Hypothesis, :mod:`studies.hostile.judge` what is
asked of every outcome, and ``python -m studies.hostile`` the long run (``make hostile``).
"""
