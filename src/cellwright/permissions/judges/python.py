"""Judging Python, and cells that are run: such code can do anything the user can, so it asks whatever the code.

Where it is allowed, the shell commands that the code names plainly are judged like Bash's: a rule that denies or asks
binds `!rm x` and `os.system("rm x")` as it binds Bash. That keeps honest code to the rules; it stops nobody.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.bash import judge_command
from cellwright.permissions.judges.files import judge_path, text_field
from cellwright.permissions.python_shell import Use, uses_in
from cellwright.permissions.rule_book import Call, RuleBook, asked_by, denied_by, first_of_every_use, judge_by_rules
from cellwright.permissions.shell.critical_deletes import critical_delete
from cellwright.text import visible_line

MAX_USES = 50
"""Commands in one cell that are looked at; with more it is asked."""


def judge_python(book: RuleBook, tool_input: Mapping[str, Any]) -> Decision:
    """May this code run in the kernel? `tool_input` is the tool's: `code`, and the fact "cwd" where it is known."""
    asks = Decision("ask", "Python code in the kernel can do anything you can.")
    return _judge_code(book, judge_by_rules(book, "Python", asks), [text_field(tool_input, "code")], tool_input)


def judge_cells(book: RuleBook, call: Call) -> Decision:
    """May these cells of a notebook run? What restricts Python restricts them; what allows it does not allow them.

    The input's fact "codes" are their sources, one text for each; without it nothing is known of them.
    """
    codes = call.input.get("codes")
    known = isinstance(codes, list | tuple) and all(isinstance(code, str) for code in codes)
    if known:
        asks = Decision("ask", "The code in the cells can do anything you can.")
    else:
        asks = Decision("ask", "Which code would run is not known.", firm=True)
    judged = judge_by_rules(book, call.name, asks)
    if judged.behavior != "deny" and (rule := first_of_every_use(book.deny, "Python")):
        return denied_by(rule, "Running Python, as cells too,")
    if judged.behavior == "allow" and (rule := first_of_every_use(book.ask, "Python")):
        judged = asked_by(rule, "Running Python, as cells too,")
    return _judge_code(book, judged, codes if known and codes else (), call.input)


def _judge_code(book: RuleBook, judged: Decision, codes: Sequence[Any], tool_input: Mapping[str, Any]) -> Decision:
    """`judged`, unless what the code does by plain words is judged stricter."""
    if judged.behavior == "deny":
        return judged
    asked = None
    uses = (use for code in codes for use in uses_in(code))
    for count, use in enumerate(dict.fromkeys(uses)):
        if count >= MAX_USES:
            asked = asked or Decision("ask", f"The code runs more than {MAX_USES} commands.")
            break
        decision = _judge_use(book, use, tool_input)
        if decision.behavior == "deny":
            return replace(decision, reason=f"The code has `{visible_line(use.text)}`. {decision.reason}")
        if decision.behavior == "ask" and (asked is None or (decision.firm and not asked.firm)):
            asked = replace(decision, reason=f"The code has `{visible_line(use.text)}`. {decision.reason}")
    return asked if asked and judged.behavior == "allow" else judged


def _judge_use(book: RuleBook, use: Use, tool_input: Mapping[str, Any]) -> Decision:
    folder = text_field(tool_input, "cwd") or book.cwd
    match use.kind:
        case "command":
            decision = judge_command(book, {"command": use.text, "cwd": folder})
            if use.expanded and decision.behavior == "allow" and not _allows_all(book):
                return Decision("ask", "What it runs shows only when it runs.")
            return decision
        case "delete":
            if target := critical_delete(f"rm -rf {shlex.quote(use.text)}", (), book.folders, folder):
                return Decision("ask", f"It deletes {target}; no mode and no rule allows that unasked.", firm=True)
            return Decision("allow", "It deletes nothing critical.")
        case "read" | "edit":
            path = use.text if use.text.startswith("~") else os.path.join(folder, use.text)
            return judge_path(book, "Read" if use.kind == "read" else "Edit", path)


def _allows_all(book: RuleBook) -> bool:
    return book.mode == "bypassPermissions" or any(rule.every_use and rule.names("Bash") for rule in book.allow)
