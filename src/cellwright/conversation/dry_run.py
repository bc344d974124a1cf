"""A dry run: the request that a prompt would send to the model, without sending it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from cellwright.agent.context.context_usage import prompt_sections
from cellwright.agent.structured_output.typed_answer import AnswerType
from cellwright.events import TurnEnd
from cellwright.model.provider import ProviderEvent, Request
from cellwright.sessions.session import Session

BYTES_PER_TOKEN = 3.5
"""Of the request's JSON, on average; the exact count is the API's, and asking for it would send the request."""


class DryRun:
    """A provider that keeps the one request it gets and answers with nothing."""

    def __init__(self) -> None:
        self.request: Request | None = None

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.request = request
        message = {"role": "assistant", "content": []}
        yield TurnEnd(message, "end_turn", {}, request.model, cost_usd=0.0)

    def summary(self, typed: AnswerType | None = None) -> dict[str, Any]:
        """The request in its parts, as JSON. Call it when the run is over. `typed` would be what the answer has to be."""
        assert self.request is not None, "the run ended before it asked"
        request = self.request
        size = len(request.system) + len(request.tools) + sum(len(message) for message in request.messages)
        return {
            "model": request.model,
            "max_tokens": request.max_tokens,
            "effort": request.effort,
            "output_format": None if typed is None else typed.output_format,
            "about_input_tokens": round(size / BYTES_PER_TOKEN),
            "sections": {part.name: part.tokens for part in prompt_sections(request.system)},
            "system": json.loads(request.system),
            "tools": json.loads(request.tools),
            "messages": [json.loads(message) for message in request.messages],
        }


def unsaved_copy(session: Session) -> Session:
    """A session in memory with what `session` holds, so that trying something out leaves no trace."""
    copy = Session.create(session.cwd, None)
    if session.encoded:
        copy.begin(model=session.model, system=json.loads(session.system), tools=json.loads(session.tools))
        for message in session.messages:
            copy.append(message)
    return copy


def shown(summary: dict[str, Any]) -> str:
    """The summary for people: sizes, names, and the messages' text."""
    lines = [
        f"Nothing was sent. This would be a request of about {summary['about_input_tokens']:,} tokens "
        f"to {summary['model']}, for an answer of at most {summary['max_tokens']:,}.",
        "",
        *([f"answer: {json.dumps(schema['schema'])}"] if (schema := summary["output_format"]) else []),
        f"tools: {', '.join(tool['name'] for tool in summary['tools']) or 'none'}",
        "",
        f"system ({', '.join(f'{name}: {tokens:,}' for name, tokens in summary['sections'].items())} tokens):",
        *(block.get("text", "") for block in summary["system"]),
    ]
    for message in summary["messages"]:
        lines += ["", f"{message['role']}:"]
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        lines += [block["text"] if block["type"] == "text" else json.dumps(block) for block in blocks]
    return "\n".join(lines)
