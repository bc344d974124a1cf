"""Traced numbers: every number of an answer is looked up in what the conversation has seen.

`written` reads the numbers of an answer, `sources` indexes what was seen, `match` and `derive` look one number up,
`typed` those of an answer that is JSON, `trace` gives the verdicts, `checks` asks for those not found to be computed and
reads what came, `answers` does it for the answers of a conversation, `feature` for its runs.

All is local, without a model, a clock or randomness: a replay has the same verdicts.
"""
