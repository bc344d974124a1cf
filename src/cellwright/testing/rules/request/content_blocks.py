"""The fields of content blocks: what each type may hold, and in whose messages it may stand.

After the parameter types of the Messages API (version 2026-10-21). The results of server tools are taken as they are:
they only ever come from the API itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cellwright.testing.rules.request.json_shape import (
    Check,
    anything,
    boolean,
    dictionary,
    list_of,
    nullable,
    one_of,
    record,
    string,
    tagged,
    text_or,
)

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
