"""The length of what the model gets of an output: its two ends, together about 25,000 tokens."""

HEAD_CHARS = 60_000
TAIL_CHARS = 40_000
