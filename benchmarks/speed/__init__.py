"""Speed, memory and accuracy side by side with peers: run → CSV → tables, pictures, docs page.

python -m benchmarks.speed.run            # a selection, under ten minutes on two cores
python -m benchmarks.speed.run --full     # everything
python -m benchmarks.speed.plot           # docs/speed.md and its pictures, from the full run
"""
