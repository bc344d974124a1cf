"""Questions to somebody who types: a permission, a question of Claude's own, a plan; in a terminal and at `input()`.

All of what is asked is shown, honestly; then lines are read until there is an answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.calls.tool_names import changes_cells
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
from cellwright.events import AnsweredBy, Preview
from cellwright.terminal.interactive.keys import ESCAPE
from cellwright.terminal.views.terminal_text import Style, style_of_diff_line
from cellwright.text import visible, visible_line

Write = Callable[[str, Style], None]
Json = Mapping[str, Any]

TITLE_CHARS = 1_000
MAX_FOLLOWING = 2
"""Of more calls that wait only their number is shown at first."""


WHO_ASKS = {"Trust": "Before Claude begins", "Undo": "Undo"}
"""Questions that are not Claude's, by their names."""


ALL_KEY, EDIT_KEY, SKIP_KEY = "a", "e", "s"

UNANSWERED = "the question was not answered"
"""The reason of a no at the end of the input."""


class OfferedAnswer(Struct, frozen=True):
    """One answer: `key` takes it; `about` says more of it; `words` names what may be written with it.

    `marks`: it may be one of several answers. `is_rule`: `about` is a permission rule, whose characters are its own.
    """

    key: str
    label: str
    about: str = ""
    words: str = ""
    marks: bool = False
    is_rule: bool = False


class Card:
    """The screen of a question: it counts the lines that are written there, so that they can be taken away again."""

    def __init__(self, screen: TextIO) -> None:
        self._screen = screen
        self._lines: int | None = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._screen, name)

    def write(self, text: str) -> int:
        if self._lines is not None:
            self._lines += text.count("\n")
        return self._screen.write(text)

    def lose_count(self) -> None:
        """The user types there, or has an editor: it stays as it is."""
        self._lines = None

    def fits(self, more: int) -> bool:
        """Return whether all of it is in view with `more` lines below it."""
        return (self._lines or 0) + more < os.get_terminal_size(self._screen.fileno()).lines

    def take_away(self, more: int) -> bool:
        """Clear the screen from the first of its lines on; False if it cannot: `more` lines have been below it."""
        if not self._lines or not self.fits(more):
            return False
        self._screen.write(f"\r\x1b[{self._lines}A\x1b[J")
        self._screen.flush()
        self._lines = 0
        return True


class Asker(Struct, frozen=True):
    """Puts questions to the user: `write(line, style)` shows a line, `read(prompt)` gives the next line that is typed.

    `read` gives None at the end of the input. `edit(text)` gives a text as the user changed it, or None when that failed;
    without it no input can be edited. `by` is how answers from here are called. `read_in_time` reads answers to Claude's own
    questions instead, and raises TimeoutError when Claude is to go on without one. `choose(answers, hint)` gives the key of
    an answer that was chosen without Enter, and the words that came with it; `choose_in_time` does so for Claude's own
    questions, of which some take several answers; `draw` shows the whole of a call in colours, `draw_markdown` a plan.
    An answered question about a permission leaves the screen if it can be taken off `card`: `taken_away` is called, for what
    came of it to be shown whole.
    """

    write: Write
    read: Callable[[str], str | None]
    by: AnsweredBy
    edit: Callable[[str], str | None] | None = None
    read_in_time: Callable[[str], str | None] | None = None
    choose: Callable[[Sequence[OfferedAnswer], str], tuple[str, str] | None] | None = None
    choose_in_time: Callable[[Sequence[OfferedAnswer], str, bool], tuple[str, str] | None] | None = None
    draw: Callable[[Preview], None] | None = None
    draw_markdown: Callable[[str], None] | None = None
    card: Card | None = None
    taken_away: Callable[[ToolUse], None] | None = None
    compact: bool = False

    def ask(self, use: ToolUse) -> Allow | Deny:
        """Ask until there is an answer; the end of the input is a no. Ctrl-C raises `KeyboardInterrupt`."""
        if not self.compact:
            self.write("", "")
        title = visible_line(use.preview.title, TITLE_CHARS)
        names_claude = title.startswith("Claude ") or use.kind == "plan"
        self.write(title if names_claude else f"{WHO_ASKS.get(use.name, 'Claude asks')}: {title}", "title")
        if use.kind == "question":
            try:
                return self._ask_questions(use)
            except TimeoutError:
                self.write("There was no answer in time: Claude continues without one.", "warning")
                return unanswered_in_time(use)
        for line in _purpose(use):
            self.write(visible_line(line, TITLE_CHARS), "")
        if use.kind in ("permission", "trust") and use.decision.shown_reason:
            self.write(visible_line(use.decision.shown_reason, TITLE_CHARS), "dim")
        if use.preview.warning:
            self.write(f"Careful: {visible_line(use.preview.warning, TITLE_CHARS)}", "warning")
        if use.kind == "plan" and self.draw_markdown is not None:
            self.draw_markdown(visible(use.preview.detail))
        else:
            self._detail(use.preview)
        is_cut = self._show_following(use)
        if self.draw is not None and self.choose is None and not self.compact:
            self.write("", "")
        return self._ask_by_key(use, is_cut=is_cut)

    def _ask_by_key(self, use: ToolUse, *, is_cut: bool) -> Allow | Deny:
        offered = {choice["key"]: choice for choice in choices(use.kind, use.decision.suggestions)}
        edited: Json | None = None
        while True:
            can_allow_all = bool(use.following) and edited is None
            can_edit = self.edit is not None and use.kind != "trust"
            reply = self._key(use, offered, can_edit=can_edit, can_allow_all=can_allow_all, is_cut=is_cut)
            if reply is None:
                return Deny(UNANSWERED, by=self.by)
            key, rest = reply
            if key == ALL_KEY and is_cut:
                # nothing is allowed before it was shown whole
                self._show_following(use, whole=True)
                is_cut = False
            elif key == ALL_KEY:
                return replace(allowed("once", (), self.by), following=True)
            elif key == EDIT_KEY:
                edited = self._edited(use, use.input if edited is None else edited)
                # the rules were made for another input
                offered = {key: choice for key, choice in offered.items() if not choice["rules"]}
            elif offered[key]["action"] == "deny":
                return denied(use, rest, self.by)
            elif use.kind == "permission":
                return allowed(offered[key]["scope"], use.decision.suggestions, self.by, edited)
            else:
                return answered(use, {**(edited or {}), **(offered[key]["input"] or {}), "feedback": rest}, self.by)

    def _key(
        self, use: ToolUse, offered: Mapping[str, Choice], *, can_edit: bool, can_allow_all: bool, is_cut: bool
    ) -> tuple[str, str] | None:
        """The key that was typed and what followed it; None at the end of the input."""
        shown = [_offer(use, choice) for choice in offered.values()]
        denials = [answer for answer in shown if offered[answer.key]["action"] == "deny"]
        if can_allow_all:
            count = len(use.following) + 1
            verb = "Review" if is_cut else "Allow"
            shown.insert(1, OfferedAnswer(ALL_KEY, f"{verb} {'both' if count == 2 else f'all {count}'}"))
        if self.choose is not None:
            edit = (
                [OfferedAnswer(EDIT_KEY, "Edit the plan…" if use.kind == "plan" else "Edit first…")] if can_edit else []
            )
            rows = [*(each for each in shown if each not in denials), *edit, *denials]
            return self._chosen(rows, use, is_cut=is_cut)
        for answer in shown:
            hint = _hint(use, offered[answer.key]) if answer in denials else ""
            self.write(f"  {answer.key}  {answer.label}{f' ({answer.about})' if answer.about else ''}{hint}", "")
        if can_edit:
            self.write(f"  {EDIT_KEY}  Edit {'' if use.kind == 'permission' else 'the plan '}first", "")
        keys = [answer.key for answer in shown] + ([EDIT_KEY] if can_edit else [])
        while True:
            typed = self.read(f"[{'/'.join(keys)}] ")
            if typed is None:
                return None
            if (reply := typed_key(typed, keys)) is not None:
                return reply

    def _chosen(self, shown: Sequence[OfferedAnswer], use: ToolUse, *, is_cut: bool) -> tuple[str, str] | None:
        """The answer that was chosen by a key or by arrows; Escape is a no without words."""
        assert self.choose is not None
        keys = [answer.key for answer in shown]
        escape = "keeps planning" if use.kind == "plan" else "denies"
        below = 2 * len(shown) + 3
        if self.card is not None and use.kind == "permission" and not self.card.fits(below):
            self.write(visible_line(use.preview.title, TITLE_CHARS), "title")  # its first line is out of view
        reply = self.choose(shown, f"Press {', '.join(keys[:-1])} or {keys[-1]}, or ↑ ↓ and Enter. Escape {escape}.")
        if reply is None:
            return None
        key, words = (keys[-1], "") if reply[0] == ESCAPE else reply
        # what an agent does has no line of its own
        leaves = use.kind == "permission" and not use.agent_id and key != EDIT_KEY and not (key == ALL_KEY and is_cut)
        if leaves and self.taken_away is not None and self.card is not None and self.card.take_away(below):
            self.taken_away(use)
        # the line of the call says that it ran, or was denied and why; what is reviewed follows
        if use.kind != "trust" and (key in (keys[0], keys[-1]) or (key == ALL_KEY and is_cut)):
            return key, words
        label = next(answer.label for answer in shown if answer.key == key)
        self.write(f"❯ {key}  {label}{f': {visible_line(words, TITLE_CHARS)}' if words else ''}", "dim")
        return key, words

    def _detail(self, preview: Preview) -> None:
        if self.draw is not None and preview.detail:
            self.draw(preview)
            return
        lines = visible(preview.detail.rstrip("\n")).split("\n") if preview.detail else []
        files = [at for at, line in enumerate(lines) if line.startswith("--- ") and lines[at + 1 : at + 2]]
        if preview.kind == "diff" and files == [0] and lines[1].startswith("+++ "):
            lines = lines[2:]  # one file needs no header: the title names it
            if lines[:1] and lines[0].startswith("@@ -0,0 "):
                lines = lines[1:]  # a new file
            lines = [line for line in lines if not line.startswith("\\ No newline")]
        for line in lines:
            self.write(f"  │ {line}", style_of_diff_line(line) if preview.kind == "diff" else "")

    def _show_following(self, use: ToolUse, *, whole: bool = False) -> bool:
        """Show the calls that are asked about next; True if something of them was left out."""
        if len(use.following) > MAX_FOLLOWING and not whole:
            self.write(self._more_wait(use), "dim")
            return True
        is_cut = False
        for call in use.following:
            preview = call.preview
            self.write(f"then {visible_line(preview.title, TITLE_CHARS)}", "title" if whole else "dim")
            if preview.warning:
                self.write(f"  Careful: {visible_line(preview.warning, TITLE_CHARS)}", "warning")
            lines = preview.detail.rstrip("\n").split("\n") if preview.detail else []
            if whole or len(lines) == 1:
                self._detail(preview)
            elif lines:
                is_cut = True
        return is_cut

    def _more_wait(self, use: ToolUse) -> str:
        count = len(use.following)
        more = f"{count} more wait{'s' if count == 1 else ''}"
        return f"{more} · {ALL_KEY} reviews {'both' if count == 1 else f'all {count + 1}'}"

    def _ask_questions(self, use: ToolUse) -> Allow | Deny:
        answers: dict[str, str] = {}
        skipped: dict[str, Json] = {}
        questions: Sequence[Json] = use.input["questions"]
        for number, question in enumerate(questions, 1):
            place = f"{number} of {len(questions)}: " if len(questions) > 1 else ""
            if self.choose_in_time is not None:
                typed = self._chosen_answer(question, place, self.choose_in_time)
            else:
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
            if option["description"]:
                self.write(f"     {visible_line(option['description'], TITLE_CHARS)}", "dim")
            self._detail(Preview("", option.get("preview", "")))
        how = "numbers" if question.get("multiSelect") else "number"
        read = self.read_in_time or self.read
        typed = read(f"{visible_line(question['header'])}: {how} or an answer of your own (empty skips) ")
        return None if typed is None else typed_answer(question, typed)

    def _chosen_answer(
        self,
        question: Json,
        place: str,
        choose: Callable[[Sequence[OfferedAnswer], str, bool], tuple[str, str] | None],
    ) -> str | None:
        """The answer to one question by keys or arrows, empty when it was skipped; None when all were dismissed."""
        if place:
            self.write(f"{place}{visible_line(question['question'], TITLE_CHARS)}", "title")
        options: Sequence[Json] = question["options"]
        several = bool(question.get("multiSelect"))
        labels = {str(number): str(option["label"]) for number, option in enumerate(options, 1)}
        for key, option in zip(labels, options, strict=True):
            if preview := option.get("preview", ""):
                self.write(f"  {key}  {visible_line(option['label'])}", "")
                self._detail(Preview("", preview))
        abouts = [visible_line(option["description"], TITLE_CHARS) for option in options]
        rows = [
            OfferedAnswer(key, visible_line(label), about, marks=several)
            for (key, label), about in zip(labels.items(), abouts, strict=True)
        ]
        other = str(len(rows) + 1)
        rows.append(OfferedAnswer(other, "Other…", words="Your answer"))
        if place:
            rows.append(OfferedAnswer(SKIP_KEY, "Skip"))
        keys = f"{', '.join(row.key for row in rows[:-1])} or {rows[-1].key}"
        then = "Enter sends what is marked" if several else "or ↑ ↓ and Enter"
        reply = choose(rows, f"Press {keys}, {then}. Escape dismisses.", several)
        if reply is None or reply[0] == ESCAPE:
            return None
        chosen = reply[0].split(",")
        answer = ", ".join(filter(None, (*(labels[key] for key in chosen if key in labels), reply[1])))
        shown = visible_line(answer, TITLE_CHARS) or "Skipped"
        if place:  # of one question, the line of the call has the answer
            self.write(f"❯ {visible_line(question['header'])}: {shown}", "dim")
        return answer

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
        self._detail(Preview("", after))
        return changed


def _offer(use: ToolUse, choice: Choice) -> OfferedAnswer:
    """The answer in the words of the browser's card."""
    label, words = visible_line(choice["label"], TITLE_CHARS), ""
    if choice["action"] == "deny" and use.kind != "trust":
        words = "Reason" if use.kind == "permission" else "What should be different?"
    if changes_cells(use.name) and use.kind == "permission" and choice["scope"] == "once":
        # a warning says that somebody changed the cell: nothing is changed, and Claude reads it again
        accept = "Let Claude adapt it" if use.preview.warning else "Accept"
        label = "Reject" if choice["action"] == "deny" else accept
    elif choice["rules"] and not label.lower().startswith(("allow", "always allow")):
        label = f"Allow {label}"
    rules = visible_line(", ".join(map(_short_rule, choice["rules"])), TITLE_CHARS)
    about = f"{'rule' if len(choice['rules']) == 1 else 'rules'} {rules}" if rules else ""
    return OfferedAnswer(choice["key"], label[:1].upper() + label[1:], about, words, is_rule=bool(rules))


def _short_rule(rule: str) -> str:
    """The rule as it may be written here: a path in the working folder, or in the user's home, begins with that."""
    for folder, short in ((Path.cwd(), "./"), (Path.home(), "~/")):
        rule = rule.replace(f"(/{folder.as_posix()}/", f"({short}")
    return rule


def _purpose(use: ToolUse) -> list[str]:
    """The purpose of a command, in the words that Claude gave with it; and the file, unless the title names it."""
    said = use.input.get("description") if use.name == "Bash" else ""
    found = [said.strip()] if isinstance(said, str) and said.strip() and said.strip() not in use.preview.title else []
    path = use.preview.path
    return [*found, *([path] if path and path not in use.preview.title else [])]


def _hint(use: ToolUse, choice: Choice) -> str:
    if choice["action"] == "deny" and use.kind != "trust":
        example = "not now" if use.kind == "permission" else "leave the tests alone"
        what = "reason" if use.kind == "permission" else "comment"
        return f" (a {what} may follow: {choice['key']} {example})"
    return ""
