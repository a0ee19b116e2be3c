"""How often intervals hold the truth: ``python -m studies.intervals``.

Five parts, each with a CSV that goes on where it was (``--fresh`` starts again) and a table under
``studies/results/intervals``, which docs/fill_study.py puts into docs/intervals.md:

*simulated*: the designs of the theory tests;
*groups*: rows that come in groups, with repeated measures;
*real*: rows of 23 real datasets, with labels whose truth is known;
*shape*: what of the shortfall on real rows is the shape of their curves;
*beside*: Venn–Abers predictors, MAPIE and the bootstrap on one design, with what each costs.
"""
