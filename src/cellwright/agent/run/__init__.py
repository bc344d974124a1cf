"""The parts of one run, besides its calls and what it spends: the model that answers, its answer so far, its errors.

Start with `run_model.py`.
"""
