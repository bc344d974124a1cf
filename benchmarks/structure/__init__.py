"""How the code is laid out, in figures, each beside the goal that it has.

`python -m benchmarks.structure` prints them; with `--check`, which `make check` runs, it fails if a goal that was reached is
lost. Start with `__main__.py`.
"""
