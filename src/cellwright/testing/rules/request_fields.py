"""The fields of a request, of its messages and of their content blocks; which betas add which.

After the parameter types of the Messages API (version 2026-10-21). A shape is a small function: `check(value, path)`
raises `ApiRejection` in the API's own words. The results of server tools are taken as they are: they only ever come from
the API itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection

Check = Callable[[Any, str], None]
Fields = Mapping[str, Check]


def anything(value: Any, path: str) -> None:
    """Any JSON."""


def string(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise ApiRejection(f"{path}: Input should be a valid string")


def boolean(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        raise ApiRejection(f"{path}: Input should be a valid boolean")


def dictionary(value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise ApiRejection(f"{path}: Input should be a valid dictionary")


def integer(minimum: int = 0) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ApiRejection(f"{path}: Input should be a valid integer")
        if value < minimum:
            raise ApiRejection(f"{path}: Input should be greater than or equal to {minimum}")

    return check


def matching(pattern: str) -> Check:
    compiled = re.compile(pattern)

    def check(value: Any, path: str) -> None:
        string(value, path)
        if not compiled.fullmatch(value):
            raise ApiRejection(f"{path}: String should match pattern '{pattern}'")

    return check


def one_of(*values: str) -> Check:
    allowed = " or ".join(filter(None, (", ".join(repr(value) for value in values[:-1]), repr(values[-1]))))

    def check(value: Any, path: str) -> None:
        if value not in values:
            raise ApiRejection(f"{path}: Input should be {allowed}")

    return check


def nullable(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if value is not None:
            inner(value, path)

    return check


def list_of(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise ApiRejection(f"{path}: Input should be a valid list")
        for index, item in enumerate(value):
            inner(item, f"{path}.{index}")

    return check


def text_or(inner: Check) -> Check:
    """A string, or what `inner` takes."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, str):
            inner(value, path)

    return check


def record(required: Fields, optional: Fields | None = None) -> Check:
    """An object with exactly these fields."""
    fields = {**required, **(optional or {})}

    def check(value: Any, path: str) -> None:
        dictionary(value, path or "body")
        start = f"{path}." if path else ""
        for name, content in value.items():
            field = fields.get(name)
            if field is None:
                raise ApiRejection(f"{start}{name}: Extra inputs are not permitted")
            field(content, start + name)
        for name in required:
            if name not in value:
                raise ApiRejection(f"{start}{name}: Field required")

    return check


def tagged(variants: Fields, *, default: str | None = None, in_path: bool = True) -> Check:
    """An object whose `type` says which variant it is; the tag is a step of the path (`…content.1.tool_use.text`)."""

    def check(value: Any, path: str) -> None:
        dictionary(value, path)
        tag = value.get("type") or default
        if tag is None:
            raise ApiRejection(f"{path}.type: Field required")
        variant = variants.get(tag) if isinstance(tag, str) else None
        if variant is None:
            expected = ", ".join(repr(name) for name in variants)
            raise ApiRejection(
                f"{path}: Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
            )
        variant(value, f"{path}.{tag}" if in_path else path)

    return check


TYPE: Mapping[str, Check] = {"type": string}
CACHE_CONTROL = nullable(tagged({"ephemeral": record(TYPE, {"ttl": one_of("5m", "1h")})}))
CACHED: Mapping[str, Check] = {"cache_control": CACHE_CONTROL}

TEXT = record({**TYPE, "text": string}, {**CACHED, "citations": nullable(list_of(dictionary))})
IMAGE_SOURCE = tagged(
    {
        "base64": record(
            {**TYPE, "media_type": one_of("image/jpeg", "image/png", "image/gif", "image/webp"), "data": string}
        ),
        "url": record({**TYPE, "url": string}),
        "file": record({**TYPE, "file_id": string}),
    }
)
IMAGE = record(
    {**TYPE, "source": IMAGE_SOURCE},
    {**CACHED, "transformations": nullable(record({}, {"oversized_image": one_of("downsize", "error")}))},
)
CITATIONS = nullable(record({}, {"enabled": boolean}))
DOCUMENT_SOURCE = tagged(
    {
        "base64": record({**TYPE, "media_type": one_of("application/pdf"), "data": string}),
        "text": record({**TYPE, "media_type": one_of("text/plain"), "data": string}),
        "content": record({**TYPE, "content": text_or(list_of(tagged({"text": TEXT, "image": IMAGE})))}),
        "url": record({**TYPE, "url": string}),
        "file": record({**TYPE, "file_id": string}),
    }
)
DOCUMENT = record(
    {**TYPE, "source": DOCUMENT_SOURCE},
    {**CACHED, "citations": CITATIONS, "context": nullable(string), "title": nullable(string)},
)
SEARCH_RESULT = record(
    {**TYPE, "content": list_of(tagged({"text": TEXT})), "source": string, "title": string},
    {**CACHED, "citations": CITATIONS},
)
THINKING = record({**TYPE, "thinking": string, "signature": string})
REDACTED_THINKING = record({**TYPE, "data": string})
CALLER = tagged(
    {
        "direct": record(TYPE),
        "code_execution_20250825": record({**TYPE, "tool_id": string}),
        "code_execution_20260120": record({**TYPE, "tool_id": string}),
    }
)
TOOL_USE = record(
    {**TYPE, "id": string, "name": string, "input": dictionary},
    {**CACHED, "caller": CALLER, "toolset_name": nullable(string)},
)
TOOL_REFERENCE = record({**TYPE, "tool_name": string}, CACHED)
BROWSER_STATE = record(
    {**TYPE, "tabs": list_of(dictionary)}, {**CACHED, "state_changes": nullable(list_of(dictionary))}
)
TOOL_RESULT_CONTENT = tagged(
    {
        "text": TEXT,
        "image": IMAGE,
        "document": DOCUMENT,
        "search_result": SEARCH_RESULT,
        "tool_reference": TOOL_REFERENCE,
        "browser_state": BROWSER_STATE,
    }
)
TOOL_RESULT = record(
    {**TYPE, "tool_use_id": string},
    {**CACHED, "content": text_or(list_of(TOOL_RESULT_CONTENT)), "is_error": boolean, "toolset_name": nullable(string)},
)
SERVER_TOOL_USE = record({**TYPE, "id": string, "name": string, "input": dictionary}, {**CACHED, "caller": CALLER})
SERVER_TOOL_RESULT = record({**TYPE, "tool_use_id": string, "content": anything}, {**CACHED, "caller": CALLER})
CONTAINER_UPLOAD = record({**TYPE, "file_id": string}, CACHED)
COMPACTION = record(
    TYPE,
    {
        **CACHED,
        "content": nullable(string),
        "encrypted_content": nullable(string),
        "signature": nullable(string),
        "tool_changes": nullable(list_of(dictionary)),
    },
)
TOOL_CHANGE = record({**TYPE, "tool": anything}, CACHED)

SERVER_TOOL_RESULTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
)
BLOCKS: dict[str, Check] = {
    "text": TEXT,
    "image": IMAGE,
    "document": DOCUMENT,
    "search_result": SEARCH_RESULT,
    "thinking": THINKING,
    "redacted_thinking": REDACTED_THINKING,
    "tool_use": TOOL_USE,
    "tool_result": TOOL_RESULT,
    "server_tool_use": SERVER_TOOL_USE,
    **dict.fromkeys(SERVER_TOOL_RESULTS, SERVER_TOOL_RESULT),
    "container_upload": CONTAINER_UPLOAD,
}
ONLY_USER = frozenset({"image", "document", "search_result", "tool_result"})
ONLY_ASSISTANT = frozenset({"thinking", "redacted_thinking", "tool_use", "server_tool_use", *SERVER_TOOL_RESULTS})

TOOL_NAME_PATTERN = "^[a-zA-Z0-9_-]{1,64}$"
SAMPLING = ("temperature", "top_p", "top_k")

_CALLERS = one_of("direct", "code_execution_20250825", "code_execution_20260120", "code_execution_20260521")
_ANY_TOOL: Mapping[str, Check] = {
    **CACHED,
    "allowed_callers": list_of(_CALLERS),
    "defer_loading": boolean,
    "strict": boolean,
}
_EXAMPLES: Mapping[str, Check] = {"input_examples": list_of(dictionary)}
_CUSTOM_TOOL = record(
    {"name": matching(TOOL_NAME_PATTERN), "input_schema": dictionary},
    {
        **_ANY_TOOL,
        **_EXAMPLES,
        "type": nullable(one_of("custom")),
        "description": string,
        "eager_input_streaming": nullable(boolean),
    },
)
_DOMAINS: Mapping[str, Check] = {
    "max_uses": nullable(integer(1)),
    "allowed_domains": nullable(list_of(string)),
    "blocked_domains": nullable(list_of(string)),
}
_WEB_SEARCH: Mapping[str, Check] = {**_DOMAINS, "user_location": nullable(dictionary)}
_WEB_FETCH: Mapping[str, Check] = {
    **_DOMAINS,
    "citations": CITATIONS,
    "max_content_tokens": nullable(integer(1)),
    "url_sources": nullable(dictionary),
}
_INCLUSION: Mapping[str, Check] = {"response_inclusion": one_of("full", "excluded")}
_CACHE_SWITCH: Mapping[str, Check] = {"use_cache": boolean}


def message_shape(has_beta: Callable[..., bool]) -> Check:
    """One message, with what the betas of the request add to it."""
    blocks = dict(BLOCKS)
    system_blocks: dict[str, Check] = {"text": TEXT}
    system_fields: dict[str, Check] = {}
    if has_beta("compact-"):
        blocks["compaction"] = COMPACTION
    if has_beta("mcp-client-"):
        mcp_call = {**TYPE, "id": string, "name": string, "server_name": string, "input": dictionary}
        blocks["mcp_tool_use"] = record(mcp_call, CACHED)
        blocks["mcp_tool_result"] = record(
            {**TYPE, "tool_use_id": string}, {**CACHED, "content": anything, "is_error": boolean}
        )
    if has_beta("mid-conversation-tool-changes-", "inline-tools-"):
        system_blocks |= {"tool_addition": TOOL_CHANGE, "tool_removal": TOOL_CHANGE}
    if has_beta("mid-conversation-system-clear-at-"):
        system_fields["clear_at"] = nullable(one_of("next_user_message", "never"))
    if has_beta("mid-conversation-output-config-", "per-turn-control-"):
        system_fields["output_config"] = nullable(dictionary)
    role = {"role": one_of("user", "assistant", "system")}
    ordinary = record({**role, "content": text_or(list_of(tagged(blocks)))})
    system = record({**role, "content": text_or(list_of(tagged(system_blocks)))}, system_fields)

    def check(value: object, path: str) -> None:
        is_system = isinstance(value, dict) and value.get("role") == "system"
        (system if is_system else ordinary)(value, path)

    return check


def _typed(name: str, extra: Mapping[str, Check] | None = None) -> Check:
    return record({**TYPE, "name": one_of(name)}, {**_ANY_TOOL, **(extra or {})})


_TOOLSET = record(TYPE, {**CACHED, "configs": nullable(dictionary)})
_TOOLS: dict[str, Check] = {
    "custom": _CUSTOM_TOOL,
    "bash_20250124": _typed("bash", _EXAMPLES),
    "text_editor_20250124": _typed("str_replace_editor", _EXAMPLES),
    "text_editor_20250429": _typed("str_replace_based_edit_tool", _EXAMPLES),
    "text_editor_20250728": _typed(
        "str_replace_based_edit_tool", {**_EXAMPLES, "max_characters": nullable(integer(1))}
    ),
    "memory_20250818": _typed("memory", _EXAMPLES),
    "code_execution_20250522": _typed("code_execution"),
    "code_execution_20250825": _typed("code_execution"),
    "code_execution_20260120": _typed("code_execution"),
    "code_execution_20260521": _typed("code_execution"),
    "web_search_20250305": _typed("web_search", _WEB_SEARCH),
    "web_search_20260209": _typed("web_search", _WEB_SEARCH),
    "web_search_20260318": _typed("web_search", {**_WEB_SEARCH, **_INCLUSION}),
    "web_fetch_20250910": _typed("web_fetch", _WEB_FETCH),
    "web_fetch_20260209": _typed("web_fetch", _WEB_FETCH),
    "web_fetch_20260309": _typed("web_fetch", {**_WEB_FETCH, **_CACHE_SWITCH}),
    "web_fetch_20260318": _typed("web_fetch", {**_WEB_FETCH, **_CACHE_SWITCH, **_INCLUSION}),
    "tool_search_tool_bm25_20251119": _typed("tool_search_tool_bm25"),
    "tool_search_tool_bm25": _typed("tool_search_tool_bm25"),
    "tool_search_tool_regex_20251119": _typed("tool_search_tool_regex"),
    "tool_search_tool_regex": _typed("tool_search_tool_regex"),
    "computer_toolset_20260801": _TOOLSET,
    "browser_toolset_20260801": _TOOLSET,
}
_BETA_TOOLS = {
    "mcp_toolset": "mcp-client-",
    "advisor_20260301": "advisor-tool-",
    "computer_20241022": "computer-use-",
    "computer_20250124": "computer-use-",
    "computer_20251124": "computer-use-",
    "bash_20241022": "computer-use-",
    "text_editor_20241022": "computer-use-",
}
_BETA_FIELDS: dict[str, tuple[str, ...]] = {
    "context_management": ("context-management-", "compact-2026-01-12"),
    "compaction": ("compact-2026-09-04",),
    "mcp_servers": ("mcp-client-",),
    "fallbacks": ("server-side-fallback-",),
    "fallback_credit_token": ("fallback-credit-",),
    "billing_policy": ("user-profiles-billing-",),
    "thread": ("message-threads-",),
}
_PARALLEL: Mapping[str, Check] = {"disable_parallel_tool_use": boolean}
_TOOL_CHOICE = tagged(
    {
        "auto": record(TYPE, _PARALLEL),
        "any": record(TYPE, _PARALLEL),
        "tool": record({**TYPE, "name": string}, _PARALLEL),
        "none": record(TYPE),
    }
)
_EFFORT = nullable(one_of("low", "medium", "high", "xhigh", "max"))
_FORMAT = nullable(tagged({"json_schema": record({**TYPE, "schema": dictionary})}))


def _thinking(has_beta: Callable[..., bool]) -> Check:
    displays = ("summarized", "omitted", *(("updates",) if has_beta("thinking-display-updates-") else ()))
    shown: dict[str, Check] = {"display": nullable(one_of(*displays))}
    bound: dict[str, Check] = {}
    if has_beta("thinking-binding-controls-"):
        behavior = nullable(one_of("error", "drop_block"))
        bound["block_binding"] = nullable(record({}, {"prefix_mismatch_behavior": behavior}))
    return tagged(
        {
            "adaptive": record(TYPE, {**shown, **bound}),
            "enabled": record({**TYPE, "budget_tokens": integer(1024)}, {**shown, **bound}),
            "disabled": record(TYPE),
            "between_tools": record(TYPE, bound),
        }
    )


def _fields(has_beta: Callable[..., bool]) -> dict[str, Check]:
    """The optional fields that a message request and a token count have in common."""
    tools = {**_TOOLS, **{name: anything for name, beta in _BETA_TOOLS.items() if has_beta(beta)}}
    config = {"effort": _EFFORT, "format": _FORMAT}
    if has_beta("task-budgets-"):
        config["task_budget"] = nullable(dictionary)
    return {
        **CACHED,
        "system": text_or(list_of(tagged({"text": TEXT}, in_path=False))),
        "tools": list_of(tagged(tools, default="custom")),
        "tool_choice": _TOOL_CHOICE,
        "thinking": _thinking(has_beta),
        "output_config": record({}, config),
        "speed": nullable(one_of("standard", "fast")),
        **{name: anything for name, betas in _BETA_FIELDS.items() if has_beta(*betas)},
    }


@lru_cache(maxsize=64)
def _request(betas: frozenset[str], counting: bool) -> tuple[Check, Check]:
    def has_beta(*prefixes: str) -> bool:
        return any(beta.startswith(prefixes) for beta in betas)

    required: dict[str, Check] = {"model": string, "messages": list_of(anything)}
    optional = _fields(has_beta)
    if not counting:
        required["max_tokens"] = integer(0)
        optional |= {
            "stream": boolean,
            "stop_sequences": list_of(string),
            "metadata": record({}, {"user_id": nullable(string)}),
            "container": nullable(
                text_or(record({}, {"id": nullable(string), "skills": nullable(list_of(dictionary))}))
            ),
            "diagnostics": nullable(record({}, {"previous_message_id": nullable(string)})),
            "inference_geo": nullable(string),
            "service_tier": one_of("auto", "standard_only"),
        }
    return record(required, optional), message_shape(has_beta)


def check_shape(body: Mapping[str, Any], betas: frozenset[str], *, first_message: int, counting: bool) -> None:
    """Every field is known, there where required, and of its type; messages before `first_message` are known to be."""
    for name in SAMPLING:
        if name in body:
            raise ApiRejection(f"{name}: `{name}` is deprecated for this model.")
    request, message = _request(betas, counting)
    request(body, "")
    for index in range(first_message, len(body["messages"])):
        message(body["messages"][index], f"messages.{index}")
