"""The seam between a conversation and its features: the questions that each may answer, and what is made of the answers.

Start with `feature.py`.

Not here: the list of features (`features/standard.py`), and the runs that ask (`conversation/runs`).
"""
