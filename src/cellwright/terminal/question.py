"""Questions to somebody who types: a permission, a question of Claude's own, a plan; in a terminal and at `input()`.

All of what is asked is shown, honestly; then lines are read until there is an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.conversation.user_answers import (
    Choice,
    allowed,
    answered,
    choices,
    denied,
    typed_answer,
    typed_key,
    unanswered_in_time,
)
from cellwright.events import AnsweredBy
from cellwright.terminal.interactive.keys import ESCAPE
from cellwright.terminal.views.terminal_text import Style, style_of_diff_line
from cellwright.text import visible, visible_line

Write = Callable[[str, Style], None]
Json = Mapping[str, Any]

TITLE_CHARS = 1_000


WHO_ASKS = {"Trust": "Before Claude begins", "Undo": "Undo"}
"""Questions that are not Claude's, by their names."""


class Asker(Struct, frozen=True):
    """Puts questions to the user: `write(line, style)` shows a line, `read(prompt)` gives the next line that is typed.

    `read` gives None at the end of the input. `edit(text)` gives a text as the user changed it, or None when that failed;
    without it no input can be edited. `by` is how answers from here are called. `read_in_time` reads answers to Claude's own
    questions instead, and raises TimeoutError when Claude is to go on without one. `press(prompt, keys)` gives one of the
    keys, or Escape, without Enter; then `read_comment` reads what a no has to say.
    """

    write: Write
    read: Callable[[str], str | None]
    by: AnsweredBy
    edit: Callable[[str], str | None] | None = None
    read_in_time: Callable[[str], str | None] | None = None
    press: Callable[[str, Sequence[str]], str | None] | None = None
    read_comment: Callable[[str], str | None] | None = None

    def ask(self, use: ToolUse) -> Allow | Deny:
        """Ask until there is an answer; the end of the input is a no. Ctrl-C raises `KeyboardInterrupt`."""
        self.write("", "")
        who = WHO_ASKS.get(use.name, "Claude asks")
        self.write(f"{who}: {visible_line(use.preview.title, TITLE_CHARS)}", "title")
        if use.kind == "question":
            try:
                return self._ask_questions(use)
            except TimeoutError:
                self.write("There was no answer in time: Claude goes on without one.", "warning")
                return unanswered_in_time(use)
        if use.preview.warning:
            self.write(f"Careful: {visible_line(use.preview.warning, TITLE_CHARS)}", "warning")
        if use.kind in ("permission", "trust") and use.decision.reason:
            self.write(visible_line(use.decision.reason, TITLE_CHARS), "dim")
        self._detail(use.preview.detail, is_diff=use.preview.kind == "diff")
        return self._ask_by_key(use)

    def _ask_by_key(self, use: ToolUse) -> Allow | Deny:
        offered = {choice["key"]: choice for choice in choices(use.kind, use.decision.suggestions)}
        edited: Json | None = None
        while True:
            reply = self._key(use, offered, can_edit=self.edit is not None and use.kind != "trust")
            if reply is None:
                return Deny("there was no answer", by=self.by)
            key, rest = reply
            if key == "e":
                edited = self._edited(use, use.input if edited is None else edited)
                # the rules were made for another input
                offered = {key: choice for key, choice in offered.items() if not choice["rules"]}
            elif offered[key]["action"] == "deny":
                return denied(use, rest, self.by)
            elif use.kind == "permission":
                return allowed(offered[key]["scope"], use.decision.suggestions, self.by, edited)
            else:
                return answered(use, {**(edited or {}), **(offered[key]["input"] or {}), "feedback": rest}, self.by)

    def _key(self, use: ToolUse, offered: Mapping[str, Choice], *, can_edit: bool) -> tuple[str, str] | None:
        """The key that was typed and what followed it; None at the end of the input."""
        for key, choice in offered.items():
            hint = "" if self.press is not None else _hint(use, choice)
            self.write(f"  {key}  {_label(choice)}{hint}", "")
        if can_edit:
            self.write(f"  e  Edit the {'input' if use.kind == 'permission' else 'plan'} first", "")
        keys = [*offered, "e"] if can_edit else list(offered)
        if self.press is not None:
            return self._pressed(use, offered, keys)
        while True:
            typed = self.read(f"[{'/'.join(keys)}] ")
            if typed is None:
                return None
            if (reply := typed_key(typed, keys)) is not None:
                return reply

    def _pressed(self, use: ToolUse, offered: Mapping[str, Choice], keys: Sequence[str]) -> tuple[str, str] | None:
        """The key that was pressed, and a no's comment; Escape is a no without one."""
        assert self.press is not None
        no = next((key for key, choice in offered.items() if choice["action"] == "deny"), "")
        key = self.press(f"[{'/'.join(keys)}] ", [*keys, "y", "n"])
        if key == ESCAPE or (key == "n" and no):
            return (no, "") if no else None
        if key in ("y", "n"):
            return typed_key(key, keys)
        if key != no or use.kind == "trust" or self.read_comment is None:
            return None if key is None else (key, "")
        what = "Reason" if use.kind == "permission" else "Comment"
        return key, (self.read_comment(f"{what} for Claude (Enter: none): ") or "").strip()

    def _detail(self, text: str, *, is_diff: bool) -> None:
        for line in visible(text.rstrip("\n")).split("\n") if text else []:
            self.write(f"  │ {line}", style_of_diff_line(line) if is_diff else "")

    def _ask_questions(self, use: ToolUse) -> Allow | Deny:
        answers: dict[str, str] = {}
        skipped: dict[str, Json] = {}
        questions: Sequence[Json] = use.input["questions"]
        for number, question in enumerate(questions, 1):
            place = f"{number} of {len(questions)}: " if len(questions) > 1 else ""
            typed = self._answer(question, place)
            if typed is None:
                return denied(use, "", self.by)
            if typed:
                answers[question["question"]] = typed
            else:
                skipped[question["question"]] = {"unanswered": "skipped"}
        return answered(use, {"answers": answers, "annotations": skipped}, self.by)

    def _answer(self, question: Json, place: str) -> str | None:
        """The answer to one question, empty when it was skipped; None at the end of the input."""
        if place:
            self.write(f"{place}{visible_line(question['question'], TITLE_CHARS)}", "title")
        options: Sequence[Json] = question["options"]
        for number, option in enumerate(options, 1):
            self.write(f"  {number}  {visible_line(option['label'])}", "")
            self.write(f"     {visible_line(option['description'], TITLE_CHARS)}", "dim")
            self._detail(option.get("preview", ""), is_diff=False)
        how = "numbers" if question.get("multiSelect") else "number"
        read = self.read_in_time or self.read
        typed = read(f"{visible_line(question['header'])}: {how} or an answer of your own (empty skips) ")
        return None if typed is None else typed_answer(question, typed)

    def _edited(self, use: ToolUse, tool_input: Json) -> Json:
        """The input as the user changed it; as it was when it makes no sense."""
        assert self.edit is not None
        field = next((name for name, value in use.input.items() if value == use.preview.detail), None)
        before = str(tool_input[field]) if field is not None else json.dumps(tool_input, indent=2, ensure_ascii=False)
        after = self.edit(before)
        changed: Any = None
        if after is not None and field is not None:
            changed = {**tool_input, field: after}
        elif after is not None:
            try:
                changed = json.loads(after)
            except ValueError as error:
                self.write(f"That is not valid JSON: {error}", "error")
        if after is None or not isinstance(changed, dict):
            self.write("The input stays as it was.", "warning")
            return tool_input
        self.write("The input is now:", "title")
        self._detail(after, is_diff=False)
        return changed


def _label(choice: Choice) -> str:
    label = visible_line(choice["label"])
    if not choice["rules"]:
        return label
    what = f"Allow {label}" if choice["scope"] == "session" else label[:1].upper() + label[1:]
    rules = visible_line(", ".join(choice["rules"]), TITLE_CHARS)
    return f"{what} ({'rule' if len(choice['rules']) == 1 else 'rules'} {rules})"


def _hint(use: ToolUse, choice: Choice) -> str:
    if choice["action"] == "deny" and use.kind != "trust":
        example = "not now" if use.kind == "permission" else "leave the tests alone"
        what = "reason" if use.kind == "permission" else "comment"
        return f" (a {what} may follow: {choice['key']} {example})"
    return ""
