"""Trials, their rows on disk, and pictures and tables made of the rows.

Data flow: an `Experiment` runs trials (`runner`), whose rows land in CSV files (`store`); a
`Result` turns the CSV files into a picture (`figures`) and a table (`tables`). `command` has what
the command lines share.
"""
