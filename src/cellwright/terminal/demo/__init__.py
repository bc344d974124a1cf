"""`cellwright demo`: a notebook with Claude at work in it, a tour in five prompts.

Start with `demo.py`.
"""
