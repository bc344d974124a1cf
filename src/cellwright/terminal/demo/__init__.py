"""`cellwright demo`: a notebook with Claude at work in it, from a failing test to a passing one.

Start with `run_demo.py`.
"""
