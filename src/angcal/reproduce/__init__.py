"""The simulated study of Li & Sur (NeurIPS 2025), re-run from a seed: ``angcal reproduce``.

Data flow: an `Experiment` runs trials (`runner`), whose rows land in CSV files (`store`); a
`Result` turns the CSV files into a picture and a table. `catalogue` lists them all.
"""
