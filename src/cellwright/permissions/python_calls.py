"""Judging Python: code in the user's namespace can do anything the user can, so it asks whatever the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.agent.approval import Decision
from cellwright.permissions.rule_book import (
    BYPASSED,
    RuleBook,
    allowed_by,
    asked_by,
    denied_by,
    denied_by_plan,
    first_of_every_use,
)


def judge_python(book: RuleBook, tool_input: Mapping[str, Any]) -> Decision:
    """May this code run in the kernel?"""
    if rule := first_of_every_use(book.deny, "Python"):
        return denied_by(rule, "The tool Python")
    if book.mode == "plan":
        return denied_by_plan("Python")
    if rule := first_of_every_use(book.ask, "Python"):
        return asked_by(rule, "The tool Python")
    if book.mode == "bypassPermissions":
        return BYPASSED
    if rule := first_of_every_use(book.allow, "Python"):
        return allowed_by(rule)
    return Decision("ask", "Python code in the kernel can do anything you can.")
