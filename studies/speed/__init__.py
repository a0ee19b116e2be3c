"""Speed, memory and accuracy side by side with peers: run → CSV → tables, pictures, docs page.

python -m studies benchmark speed            # a selection, under ten minutes on two cores
python -m studies benchmark speed --full     # everything, and docs/speed.md
"""
