"""Traced numbers: every number of an answer is looked up in what the conversation has seen.

`written` reads the numbers of an answer, `sources` indexes what was seen, `match` and `derive` look one number up,
`trace` gives the verdicts. All is local, without a model, a clock or randomness: a replay has the same verdicts.
"""
