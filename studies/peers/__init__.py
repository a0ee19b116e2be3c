"""Side by side with peers on real labels: ``python -m studies benchmark real``.

Data flow: `tasks` draws training and test rows of a real dataset; `methods` and `peers` say what is
fitted to them; `real` runs every method on the same rows and leaves one row of numbers each;
`compare` ranks and tests the numbers; `real_tables` and `real_figures` present them; `command` is
the command line. Trials, files and pictures are those of `studies.engine`.
"""
