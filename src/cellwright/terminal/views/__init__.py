"""A run as the terminal shows it: drawn live, or as plain lines.

Start with `choose_view.py`: which view it is. `run_lines.py` has the lines that both show, `terminal_text.py` the texts in
them made harmless. Not here: what a run is asked and told by its user (`terminal/question.py`, `terminal/run.py`).
"""
