"""Spending and its budgets: of a run, and beyond it of a session, a notebook and a day.

Prices are the model room's, the amounts in transcripts the sessions'. Begin with `run_spending.py`: budgets are asked
there before each request.
"""
