"""Traced numbers: every number of an answer is looked up in what the conversation has seen.

`written` reads the numbers of an answer, `sources` indexes what was seen, `match` looks one number up,
`typed` those of an answer that is JSON, `trace` gives the verdicts, `seen` reads the messages and asks for
numbers that were not found to be computed, `answers` does it for the answers of a conversation, `feature` for its runs.

All is local, without a model, a clock or randomness: a replay has the same verdicts.
"""
