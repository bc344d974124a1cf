"""A server's question to the user, as a question card: a form becomes a question for each field, an address a yes or no.

What the user answers goes to the server, and the card says so. Nobody but the user answers, or a hook of theirs: no rule,
no mode, no default. Hooks are told of the question (`Elicitation`), and of the answer before it is sent
(`ElicitationResult`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from cellwright.agent.tool import ToolContext
from cellwright.text import visible_line
from cellwright.this_process.late_imports import importing
from cellwright.tools.mcp.schema import shown_text
from cellwright.tools.planning.ask_user_question import HEADER_CHARS, MAX_OPTIONS, MAX_QUESTIONS, ask_user_question_tool

TRIES = 3
"""Times that an answer which does not fit is asked for."""

WRITE = "(write your answer)"
LEAVE_OUT = "(leave it out)"
CANCEL = "(answer nothing)"

Field = Mapping[str, Any]


class _Wrong(Exception):
    """An answer that does not fit its field; the message says what it has to be."""


async def elicit(context: ToolContext, server: str, params: Any) -> Any:
    """Put a server's question to hooks and the user within the call of `context`; the SDK's `ElicitResult`."""
    about: dict[str, Any] = {"mcp_server_name": server, "mode": params.mode}
    if params.mode == "url":
        about["elicitation_id"] = params.elicitation_id
        asked = {**about, "url": params.url}
    else:
        asked = {**about, "requested_schema": params.requested_schema}
    said = await context.fire_hooks("Elicitation", {**asked, "message": params.message})
    if said.block or said.stop is not None:
        result = _result("decline")
    elif said.elicitation is not None:
        result = _hooks_answer(said.elicitation, None)
    else:
        result = await _users_answer(context, server, params)
    answer = {**about, "action": result.action, **({"content": result.content} if result.content is not None else {})}
    said = await context.fire_hooks("ElicitationResult", answer)
    if said.block or said.stop is not None:
        return _result("decline")
    return result if said.elicitation is None else _hooks_answer(said.elicitation, result.content)


def _result(action: str, **content: Any) -> Any:
    """The SDK's `ElicitResult`. Raises ValueError for content that does not fit."""
    with importing:
        from mcp_types import ElicitResult

    return ElicitResult.model_validate({"action": action, **content})


def _hooks_answer(answer: Mapping[str, Any], content: Any) -> Any:
    """A hook's answer as the SDK's; `content` is the user's, which counts where the hook has none. None that fits: a no."""
    if answer["action"] != "accept":
        return _result(answer["action"])
    given = content if answer["content"] is None else answer["content"]
    try:
        return _result("accept", content=given)
    except ValueError:
        return _result("decline")


async def _users_answer(context: ToolContext, server: str, params: Any) -> Any:
    if params.mode == "url":
        return _result("accept" if await _opened(context, server, params) else "decline")
    schema = params.requested_schema if isinstance(params.requested_schema, Mapping) else {}
    fields = schema.get("properties")
    fields = fields if isinstance(fields, Mapping) else {}
    if len(fields) > 40:
        return _result("decline")
    required = schema.get("required")
    needed = set(required) if isinstance(required, list) else set()
    content = await _filled_in(context, server, params.message, fields, needed)
    return _result("cancel") if content is None else _result("accept", content=content)


async def _opened(context: ToolContext, server: str, params: Any) -> bool:
    host = _host(params.url)
    if not host:  # a file, a program, a script: nothing for a browser
        return False
    question = (
        f"The MCP server {visible_line(server)} asks you to open an address of {host} in your browser: "
        f"{visible_line(params.url, 500)}\n{shown_text(params.message, 300)}"
    )
    options = [
        {"label": "I have opened it", "description": "The server is notified that you agree."},
        {"label": "No", "description": "The server is notified that you decline."},
    ]
    answers = await _ask(context, [_question(question[:1_000], "Open", options)])
    return answers is not None and list(answers.values()) == ["I have opened it"]


def _host(url: str) -> str:
    """The host of a web address, letters that only look like others spelled out; "" for what is none.

    Nor is one with a backslash, which browsers take for a slash: they would go to another host than the one shown.
    """
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode("ascii")
    except ValueError:
        return ""
    return host if parts.scheme in ("http", "https") and url.isprintable() and not set(url) & set(" \\") else ""


async def _filled_in(
    context: ToolContext, server: str, message: str, fields: Mapping[str, Field], needed: set[str]
) -> dict[str, Any] | None:
    """The form's content, None where the user does not fill it in."""
    content: dict[str, Any] = {}
    intro = f"{visible_line(server)} (an MCP server, which gets your answer): {shown_text(message, 300)}"
    left = {name: field if isinstance(field, Mapping) else {} for name, field in fields.items()}
    if not left:
        agreed = await _ask(context, [_question(intro, "Server", _choices(["Yes", "No"]))])
        return {} if agreed is not None and list(agreed.values()) == ["Yes"] else None
    wrong: dict[str, str] = {}
    for _ in range(TRIES):
        for start in range(0, len(left), MAX_QUESTIONS):
            names = list(left)[start : start + MAX_QUESTIONS]
            asked = {
                _text_of(name, left[name], intro if name == names[0] else "", name in needed, wrong.get(name, "")): name
                for name in names
            }
            questions = [
                _question(text, str(left[name].get("title") or name), _options_of(left[name], name in needed))
                for text, name in asked.items()
            ]
            answers = await _ask(context, questions)
            if answers is None or CANCEL in answers.values():
                return None
            for text, name in asked.items():
                wrong.pop(name, None)
                answer = answers.get(text, "").strip()
                if answer in ("", LEAVE_OUT):
                    if name in needed:
                        wrong[name] = "an answer is needed"
                    continue
                try:
                    content[name] = _value(answer, left[name])
                except _Wrong as problem:
                    wrong[name] = str(problem)
        if not wrong:
            return content
        left = {name: left[name] for name in wrong}
    return None


async def _ask(context: ToolContext, questions: list[dict[str, Any]]) -> dict[str, str] | None:
    answered = await context.ask_user(ask_user_question_tool(), {"questions": questions})
    answers = (answered or {}).get("answers")
    if not isinstance(answers, Mapping) or not answers:
        return None
    return {
        text: answer if isinstance(answer, str) else ", ".join(map(str, answer)) for text, answer in answers.items()
    }


def _question(text: str, header: str, options: list[dict[str, str]]) -> dict[str, Any]:
    return {"question": text[:1_000], "header": visible_line(header, HEADER_CHARS), "options": options}


def _text_of(name: str, field: Field, intro: str, needed: bool, wrong: str) -> str:
    about = field.get("description") or field.get("title") or name
    kind = str(field.get("type", "string"))
    bounds = [f"{word} {field[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in field]
    words = {"string": "text", "integer": "whole number", "boolean": "yes or no"}.get(kind, kind)
    kind = visible_line(" ".join([words, *bounds]), 80)
    choices = [label for label, _ in _enum(field)]
    more = f" One of: {', '.join(choices)}." if len(choices) > MAX_OPTIONS - 1 else ""
    problem = f" ({wrong}.)" if wrong else ""
    need = "" if needed else ", may be left out"
    text = f"{visible_line(name, 60)}: {shown_text(str(about), 300)} ({kind}{need}).{more[:200]}{problem}"
    return f"{intro}\n{text}" if intro else text


def _options_of(field: Field, needed: bool) -> list[dict[str, str]]:
    """The answers to choose; the user can always write another."""
    if field.get("type") == "boolean":
        offered = ["Yes", "No"]
    else:
        offered = [label for label, _ in _enum(field)]
        default = field.get("default")
        if isinstance(default, str | int | float) and not isinstance(default, bool):
            offered = list(dict.fromkeys([visible_line(str(default), 100), *offered]))
    if not needed:
        offered = [*offered[: MAX_OPTIONS - 2], LEAVE_OUT]
    offered = [each for each in dict.fromkeys(offered) if each][: MAX_OPTIONS - 1]
    return _choices([*offered, CANCEL] if len(offered) else [WRITE, CANCEL])


def _choices(labels: list[str]) -> list[dict[str, str]]:
    about = {
        WRITE: "In the field below the choices.",
        LEAVE_OUT: "Nothing is said for this field.",
        CANCEL: "The server gets no answer at all.",
    }
    return [{"label": label, "description": about.get(label, f"Answer {label}.")} for label in labels]


def _enum(field: Field) -> list[tuple[str, str]]:
    """The labels and values that may be chosen."""
    named = field.get("oneOf") or field.get("anyOf")
    if isinstance(named, list):
        pairs = [
            (each.get("title") or each.get("const"), each.get("const")) for each in named if isinstance(each, Mapping)
        ]
    else:
        values, names = field.get("enum"), field.get("enumNames")
        values = values if isinstance(values, list) else []
        names = names if isinstance(names, list) and len(names) == len(values) else values
        pairs = list(zip(names, values, strict=True))
    return [(visible_line(str(label), 100), str(value)) for label, value in pairs if value is not None][:50]


def _value(answer: str, field: Field) -> Any:
    """The answer as the field's value. Raises _Wrong."""
    kind = field.get("type")
    if kind == "boolean":
        if answer.lower() not in ("yes", "no", "true", "false"):
            raise _Wrong("it has to be yes or no")
        return answer.lower() in ("yes", "true")
    if kind in ("integer", "number"):
        return _number(answer, field)
    if kind == "array":
        items = field.get("items")
        chosen = [each.strip() for each in answer.split(",") if each.strip()]
        return [_chosen(each, items if isinstance(items, Mapping) else {}) for each in chosen]
    return _chosen(answer[:10_000], field)


def _chosen(answer: str, field: Field) -> str:
    choices = _enum(field)
    if not choices:
        return answer
    found = next((value for label, value in choices if answer in (label, value)), None)
    if found is None:
        raise _Wrong("it has to be one of the choices")
    return found


def _number(answer: str, field: Field) -> int | float:
    try:
        value = int(answer) if field.get("type") == "integer" else float(answer)
    except ValueError:
        raise _Wrong("it has to be a number") from None
    low, high = field.get("minimum", -math.inf), field.get("maximum", math.inf)
    if not math.isfinite(value) or not (_is_number(low) and _is_number(high)) or not low <= value <= high:
        raise _Wrong("it is not within the bounds")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
