"""Runs without tools that may propose files: Claude is told how, and with the next prompt what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.file_blocks import FileProposals
from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext, text_context
from cellwright.agent.tool import Tool
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.text import visible_line

WRITE = "Write"
_TAG = "file-blocks"
HOW_TO_PROPOSE = f"""\
<{_TAG}>
You have no tools here. To propose a file, give its whole content in a fenced block whose first line names language and \
path, as in ```python:src/app.py; the user sees each as a diff and decides. Other code goes into blocks without a path. \
Propose to replace only files that you were shown whole.
</{_TAG}>"""
HOW_NO_LONGER = f"""\
<{_TAG}-no-longer>
You have tools now: files are changed with them, and a block that names a path writes nothing.
</{_TAG}-no-longer>"""
_OPENINGS = f"<{_TAG}>".encode(), f"<{_TAG}-no-longer>".encode()


class FileBlocks(Feature):
    """The proposals of one conversation; `tools` are all that it has."""

    def __init__(self, tools: Callable[[], Sequence[Tool]]) -> None:
        self._tools = tools
        self._untold: list[tuple[str, str]] = []

    def agent(self, agent: AgentSetup, options: RunOptions) -> AgentSetup:
        if not options.proposes_files:
            return agent
        write = next((tool for tool in self._tools() if tool.name == WRITE), None)
        if write is None:
            return agent
        return replace(agent, final_answer=replace(agent.final_answer, proposals=FileProposals(write, self._report)))

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return self._for_prompt

    def after_summary(self, run: RunInfo | None) -> ContextProvider:
        return self._for_prompt

    def _report(self, outcomes: Sequence[tuple[str, str]]) -> None:
        self._untold += outcomes

    def _for_prompt(self, prompt_context: PromptContext) -> ContextItems:
        """Explain how to propose files, or to use tools again, once each; and report the outcome of each proposed file."""
        outcomes, self._untold = self._untold, []
        parts = []
        agent = prompt_context.agent
        knows_how = _knows_how(prompt_context.session.encoded)
        if agent.final_answer.proposals is not None and not knows_how:
            parts.append(text_context("How to propose files", "context", HOW_TO_PROPOSE))
        elif agent.final_answer.proposals is None and knows_how and agent.tools:
            parts.append(text_context("Tools instead of proposed files", "context", HOW_NO_LONGER))
        if outcomes:
            lines = "\n".join(f"- {visible_line(path)}: {visible_line(what)}" for path, what in outcomes)
            text = f"<proposed-files>\nWhat became of the files that you proposed:\n{lines}\n</proposed-files>"
            parts.append(text_context("Proposed files", "context", text))
        return ContextItems(before=tuple(parts))


def _knows_how(encoded: Sequence[bytes]) -> bool:
    """Return whether what these messages told last is how to propose files, and not that it is done no longer."""
    how, no_longer = _OPENINGS
    for message in reversed(encoded):
        if how in message or no_longer in message:
            at = message.find(how)
            return at >= 0 and not 0 <= message.find(no_longer) < at
    return False
