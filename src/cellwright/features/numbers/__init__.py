"""Traced numbers: every number of an answer is looked up in what the conversation has seen.

`written` reads the numbers of a text, `sources` indexes what was seen, `match` looks one number up, `trace` gives the
verdicts, `claims` looks names and test runs up, `answers` reads a conversation's messages and traces its answers, `feature`
does so in runs. `stale` keeps the places of a saved answer's numbers; `in_notebook` holds a notebook against its cells.

All is local, without a model, a clock or randomness: a replay has the same verdicts.
"""
