"""Limits of what is shown, kept and written of a run: a table for each place, in characters if nothing else is said.

Cutting says what it left out; the whole is in the session's transcript.
"""

from __future__ import annotations

from msgspec import Struct


class _Drawn(Struct, frozen=True):
    """Limits of one text each, on its way to a page."""

    input: int = 4_000
    """Of one string in a call's input."""
    code: int = 40_000
    """Of code that runs in the user's namespace: it is read whole."""
    editable_input_bytes: int = 100_000
    output: int = 100_000
    """Of what one call prints while it runs."""
    result: int = 10_000
    diff: int = 100_000
    context: int = 20_000
    effect: int = 200
    number_of_effects: int = 100
    agent_message: int = 4_000
    numbers: int = 200
    """The number of an answer's numbers that are listed."""


class _Kept(Struct, frozen=True):
    """Limits of one call or text each, in a notebook that is saved."""

    code: int = 6_000
    printed: int = 3_000
    """By its code."""
    result: int = 6_000
    """Of a call that has run something."""
    found: int = 1_500
    """Of a call of another tool, which has mostly read what stands in files."""
    diff: int = 10_000
    context: int = 1_000
    """Enough to know it by."""
    title: int = 200
    reason: int = 300


class _KeptOfRun(Struct, frozen=True):
    """Limits of a whole run, in a notebook that is saved."""

    answer: int = 100_000
    plain: int = 8_000
    """Of the answer as plain text, beside the Markdown."""
    code: int = 60_000
    """And of what it printed."""
    diffs: int = 50_000
    thinking: int = 40_000
    inputs: int = 60_000
    results: int = 60_000
    context: int = 20_000
    agents: int = 30_000
    rest: int = 40_000
    """Of notices, questions, errors and the user's words together."""
    operations: int = 4_000
    """Their number."""


class _OnTerminal(Struct, frozen=True):
    """Limits of one call or stretch of thinking each, on a terminal."""

    diff_lines: int = 60
    result_lines: int = 200
    thought: int = 50_000
    output: int = 4_000
    """The end of what a running call prints, of which the last lines are drawn."""
    output_lines: int = 3


DRAWN = _Drawn()
KEPT = _Kept()
KEPT_OF_RUN = _KeptOfRun()
ON_TERMINAL = _OnTerminal()
