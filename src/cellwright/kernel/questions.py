"""Putting a permission question to the user, on the way that reaches them, and never hanging.

A widget that said it is there gets the question. Else `input()` asks, where the cell's request allows it. Where nobody
can be asked the answer is no, with the rule that would have allowed the call.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from cellwright.agent.agent_thread import CallerJobs
from cellwright.agent.approval import Allow, Deny, ToolUse
from cellwright.agent.permission_gate import nobody_to_ask
from cellwright.errors import CellwrightError
from cellwright.events import AnsweredBy
from cellwright.kernel.choices import Choice, allowed, answer_of, choices
from cellwright.kernel.comm import Answer
from cellwright.kernel.interrupts import interruptible
from cellwright.visible_text import visible, visible_line

SECONDS_TO_GET_READY = 2.0
"""How long a widget that was displayed may take to say that it is there."""

_REPLY = re.compile(r"\s*(?P<key>[1-4]|y(?:es)?|no?)(?:[\s,:.]+(?P<reason>.*))?\s*", re.IGNORECASE | re.DOTALL)


def _no_one(_text: str) -> None:
    """Who is told before there is an output."""


Answering = asyncio.Future[Allow | Deny]


@dataclass(eq=False)
class Questions:
    """The questions of one cell. All of it runs on the agent's loop, but for what `jobs` takes to the waiting thread.

    `widget`: whether one was displayed; `ready` is set when it has answered. `save_rules` keeps rules for ever; where it
    cannot, the user is told by `tell`.
    """

    jobs: CallerJobs
    allows_input: bool
    widget: bool
    save_rules: Callable[[Sequence[str]], object]
    tell: Callable[[str], object] = _no_one
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    _open: dict[str, tuple[ToolUse, Answering]] = field(default_factory=dict)

    async def can_use_tool(self, use: ToolUse) -> Allow | Deny:
        """The user's answer, or the policy's where there is nobody to ask."""
        answer: Answering = asyncio.get_running_loop().create_future()
        self._open[use.question_id] = (use, answer)
        try:
            given = await self._answer(use, answer)
        finally:
            del self._open[use.question_id]
        if isinstance(given, Allow) and given.scope == "always":
            try:
                await asyncio.to_thread(self.save_rules, given.rules)
            except CellwrightError as error:
                # the user allowed it all the same: for this session the rule holds
                self.tell(error.message)
                return replace(given, scope="session")
        return given

    def take(self, answer: Answer) -> None:
        """An answer came from a view; the first one counts."""
        if (asked := self._open.get(answer.question)) is None:
            return
        use, future = asked
        if not future.done():
            future.set_result(answer_of(answer, use.decision.suggestions))

    async def _answer(self, use: ToolUse, answer: Answering) -> Allow | Deny:
        if self.widget and await self._widget_is_ready():
            return await answer
        if not self.allows_input:
            return Deny(nobody_to_ask(use.decision), "policy")
        typed: Answering = asyncio.ensure_future(self.jobs.call(functools.partial(_ask_here, use)))
        try:
            await asyncio.wait({typed, answer}, return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else typed.result()
        finally:
            typed.cancel()

    async def _widget_is_ready(self) -> bool:
        try:
            async with asyncio.timeout(SECONDS_TO_GET_READY):
                await self.ready.wait()
        except TimeoutError:
            self.widget = False
            return False
        return True


def _ask_here(use: ToolUse) -> Allow | Deny:
    with interruptible():
        return ask_by_input(use)


def ask_by_input(use: ToolUse, by: AnsweredBy = "input") -> Allow | Deny:
    """Ask with `input()` on this thread until there is an answer; an end of the input is a no."""
    offered = {choice["key"]: choice for choice in choices(use.decision.suggestions)}
    print(question_text(use, list(offered.values())), flush=True)
    keys = "/".join(offered)
    while True:
        try:
            reply = _REPLY.fullmatch(input(f"{visible_line(use.preview.title)}? [{keys}] "))
        except EOFError:
            return Deny("there was no answer", by)
        if reply is None:
            continue
        key = {"y": "1", "n": "4"}.get(reply["key"][0].lower(), reply["key"])
        if key in offered:
            return _typed(offered[key], reply["reason"] or "", use, by)


def _typed(choice: Choice, reason: str, use: ToolUse, by: AnsweredBy) -> Allow | Deny:
    if choice["action"] == "deny":
        return Deny(reason.strip(), by)
    return allowed(choice["scope"], use.decision.suggestions, by)


def question_text(use: ToolUse, offered: list[Choice]) -> str:
    """The whole question: what the call does to what, why it is asked, all of the detail, the answers."""
    preview = use.preview
    lines = [f"── Claude asks: {visible_line(preview.title)}"]
    remarks = (preview.warning and f"Careful: {preview.warning}", use.decision.reason)
    lines += [f"   {visible_line(remark, 1_000)}" for remark in remarks if remark]
    lines += [f"   │ {line}" for line in visible(preview.detail).split("\n")] if preview.detail else []
    for choice in offered:
        rules = visible_line(", ".join(choice["rules"]), 1_000)
        rule = f" ({rules})" if rules else ""
        hint = " (a reason may follow: 4 not now)" if choice["action"] == "deny" else ""
        lines.append(f"   {choice['key']}  {choice['label']}{rule}{hint}")
    return "\n".join(lines)
