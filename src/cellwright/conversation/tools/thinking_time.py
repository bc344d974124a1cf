"""The time in which the model thinks about its first answer: what that answer's calls and its end need is imported then.

A session's first request waits for nothing of that, and neither does its first call: thirty modules are 40 ms.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Policy
from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import Tool
from cellwright.conversation.runs.sandbox_lookup import SandboxLookup

QUIET_SECONDS = 0.05
"""An answer that comes at once is shown first: two threads at work hinder each other."""

LATE_MODULES = ("cellwright.tools.code.navigation.related_code",)
"""Modules that calls import when they have been judged."""


class ThinkingTime:
    """The work of one conversation for that time, done once; `add` may say more of it before."""

    def __init__(self, sandbox: SandboxLookup) -> None:
        self._sandbox = sandbox
        self._work: list[Callable[[], None]] = []
        self._asked = self._begun = False

    def add(self, work: Callable[[], None]) -> None:
        """Have this done, too; in a thread."""
        self._work.append(work)

    def begin(self, agent: AgentSetup, when_looked: Callable[[], None]) -> None:
        """A request of `agent` has left; on its loop. `when_looked` is called when the sandbox is known, in any thread."""

        def begin() -> None:
            self._sandbox.begin().add_done_callback(lambda _: when_looked())
            if not self._begun:
                self._begun = True
                # a policy as it is now: the one in force renews itself, on this thread alone
                work = functools.partial(self._do, agent.tools, agent.policy.allowing(()))
                threading.Thread(target=work, name="cellwright-thinking", daemon=True).start()

        if self._asked:  # the first answer has been shown
            begin()
        else:
            self._asked = True
            asyncio.get_running_loop().call_later(QUIET_SECONDS, begin)

    def _do(self, tools: Sequence[Tool], policy: Policy) -> None:
        with suppress(Exception):
            self._sandbox.found()  # whoever needs it says what failed
        rehearse([tool for tool in tools if not (tool.defer_loading or tool.rarely_used)], policy)
        # what fails here fails again, with its message, when it is needed
        for name in LATE_MODULES:
            with suppress(Exception):
                importlib.import_module(name)
        for work in self._work:
            with suppress(Exception):
                work()


def rehearse(tools: Sequence[Tool], policy: Policy) -> None:
    """Check and judge a call of each of the tools, and do none: what is only imported for that is there from now on."""
    for tool in tools:
        # an example need not fit where it is taken for a call, and nobody is told
        with suppress(Exception):
            policy.decide(tool, check_input(tool, tool.input_examples[0] if tool.input_examples else {}))
