"""The messages of a conversation as the API takes them: blocks that it knows, calls that are answered once, and its turns.

A turn is a user's prompt and all that came of it. All of it is pure: messages in, messages out. What is said in the user's
place, and is none of their words, is made here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from cellwright.sessions.transcripts.transcript import is_said
from cellwright.sessions.transcripts.transcript_file import Line
from cellwright.text import lazy_pattern

Json = Mapping[str, Any]
Message = dict[str, Any]

_SERVER_RESULTS = frozenset(
    f"{tool}_tool_result"
    for tool in (
        "web_search",
        "web_fetch",
        "code_execution",
        "bash_code_execution",
        "text_editor_code_execution",
        "tool_search",
    )
)
"""The results of the API's own tools. Those of its MCP connector go back only with a beta that is never asked for."""

_KNOWN = frozenset(
    {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "container_upload", "compaction"}
    | _SERVER_RESULTS
)
"""The types of blocks in an answer that may go back to the API."""

THINKING = ("thinking", "redacted_thinking")
_ID = lazy_pattern(r"[a-zA-Z0-9_-]+")
_NO_NAME_CHARACTER = lazy_pattern(r"[^a-zA-Z0-9_-]")

_NOTES = [(f"<{tag}>", f"</{tag}>") for tag in ("turn-ended", "history-dropped", "imported-session")]

_ENDED = {
    "interrupted": "The user stopped you here.",
    "kernel": "The process ended here, while you were answering.",
    "error": "The run ended here with an error, while you were answering.",
}
LOST_RESULT = "The result of this call is lost: the transcript was damaged. The call may have had effects."
SHORT_CHARS = 400
"""The length of what a note quotes of one block."""

MAX_SHORT_LINES = 100
"""The blocks that a note quotes at most, the last ones."""

NOT_TAKEN = "[{what} that the API did not take was here]"
"""The words in the place of a picture or a document that was refused."""

GO_ON = "Your answer was cut off at the output limit. Continue exactly where it stopped."
"""The agent's words in the user's place when an answer met the output limit."""

PLAN_MODE = """\
Plan mode: change nothing until the user approves a plan. Read and search until you know what has to be \
done; ask with AskUserQuestion what only the user can decide; then call ExitPlanMode with the plan: what will be \
changed where, in which order, how it is checked, what is left out."""
"""The instructions to Claude while it may only plan; that it does no more is the policy's to see to."""

_USER = b'{"role":"user"'
_RESULT = b'"type":"tool_result"'

# what is told besides the user's words stands in a tag of its own
_CONTEXT = lazy_pattern(r"\s*<(?P<tag>[a-z][\w-]*)(?:\s[^>]*)?(?:/>|>.*</(?P=tag)>)\s*", re.DOTALL)


def media_in_words(content: str | Sequence[Json]) -> tuple[list[dict[str, Any]], int]:
    """The blocks of a user's message with words for its pictures and documents; the number of those."""
    blocks: list[dict[str, Any]] = []
    count = 0
    for block in _blocks(content):
        if block["type"] in ("image", "document"):
            what = "an image" if block["type"] == "image" else "a document"
            blocks.append(_text(NOT_TAKEN.format(what=what)))
            count += 1
        elif block["type"] == "tool_result" and not isinstance(block.get("content", ""), str):
            inside, inner = media_in_words(block["content"])
            blocks.append({**block, "content": inside} if inner else dict(block))
            count += inner
        else:
            blocks.append(dict(block))
    return blocks, count


SUMMARY, CONTINUES = "conversation-summary", "conversation-continues"
"""The tags of what stands at a boundary: the summary, and what is told behind it."""


def is_after_boundary(content: Sequence[Json]) -> bool:
    """Return whether the blocks of a user's message are those of a boundary, and none of the user's words."""
    first = str(content[0].get("text", "")) if content else ""
    return first.startswith((f"<{SUMMARY}>", f"<{CONTINUES}>"))


def is_note(text: str) -> bool:
    """Return whether a text in a user message is one of ours, and none of the user's words."""
    return any(text.startswith(opening) and text.endswith(closing) for opening, closing in _NOTES)


def ended_note(reason: str) -> dict[str, Any]:
    """The block that tells Claude how its answer ended, where it did not end by itself."""
    what = _ENDED.get(reason, _ENDED["error"])
    return _text(f"<turn-ended>{what} The part of your answer that arrived is above.</turn-ended>")


IMPORTED_NOTE = b'{"role":"user","content":[{"type":"text","text":"<imported-session>'
"""The beginning of the message that `imported_note` is, as it is encoded."""


def imported_note(*, compacted: bool) -> dict[str, Any]:
    """The block that tells Claude where a conversation comes from that it goes on with here."""
    summary = " It begins with a summary of the earlier part." if compacted else ""
    return _text(
        f"<imported-session>The conversation above took place in Claude Code; it continues in Cellwright.{summary} Tools "
        "and instructions are Cellwright's from now on: some tools called above may be missing. Files may have "
        "changed since: read them again before you change them.</imported-session>"
    )


def dropped_note(messages: Sequence[Json]) -> dict[str, Any]:
    """The block that tells in short what stood in `messages`, which the API did not take."""
    lines = [line for message in messages for line in _in_short(message)]
    if len(lines) > MAX_SHORT_LINES:
        lines = [f"- ({len(lines) - MAX_SHORT_LINES} parts before that)", *lines[-MAX_SHORT_LINES:]]
    told = "\n".join(lines).replace("</history-dropped>", "")
    return _text(
        "<history-dropped>The API refused the messages after this point, so they were removed. In short:\n"
        f"{told}</history-dropped>"
    )


def _in_short(message: Json) -> Iterable[str]:
    for block in _blocks(message["content"]):
        match block["type"]:
            case "text" if not is_note(str(block["text"])):
                yield f"- {'You' if message['role'] == 'assistant' else 'The user'} said: {_short(str(block['text']))}"
            case "tool_use":
                shown = json.dumps(block["input"], ensure_ascii=False)
                yield f"- You called {block['name']}: {_short(shown)}"
            case "tool_result":
                texts = [str(part["text"]) for part in _blocks(block.get("content") or []) if part["type"] == "text"]
                failed = " (an error)" if block.get("is_error") else ""
                yield f"- Its result{failed}: {_short(' '.join(texts)) or 'no text'}"
            case "image" | "document":
                yield f"- Omitted: {'an image' if block['type'] == 'image' else 'a document'}."


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT_CHARS else f"{line[:SHORT_CHARS]}… ({len(line):,} characters)"


def is_known(block: Json) -> bool:
    """Return whether a block of an answer is of a type that may go back to the API."""
    return block["type"] in _KNOWN


def usable_name(name: str) -> str:
    """The name of a tool as the API takes it back; a name that it takes stays as it is."""
    return _NO_NAME_CHARACTER.sub("_", name)[:128] or "unnamed"


def unique_id(wanted: str, taken: Iterable[str]) -> str:
    """`wanted`, or as near to it as an id comes that the API takes and nobody has."""
    if _ID.fullmatch(wanted) and wanted not in taken:
        return wanted
    stem = _NO_NAME_CHARACTER.sub("_", wanted) or "call"
    number = 2
    while f"{stem}_{number}" in taken:
        number += 1
    return f"{stem}_{number}"


def cut_content(blocks: Sequence[Json], open_before: Collection[str] = ()) -> list[dict[str, Any]]:
    """The blocks that are kept of an answer which broke off after `blocks`; none where no words and no calls are among them.

    Thinking needs its signature, and a call of the API's own tools its result (`complete_pairs`).
    """

    def is_kept(block: Json) -> bool:
        match block["type"]:
            case "text":
                return bool(str(block["text"]).strip())
            case "thinking":
                return bool(block.get("signature"))
        return is_known(block)

    kept = complete_pairs([block for block in blocks if is_kept(block)], open_before)
    return kept if any(block["type"] not in THINKING for block in kept) else []


def complete_pairs(
    blocks: Sequence[Json], open_before: Collection[str] = (), *, continues: bool = False
) -> list[dict[str, Any]]:
    """The blocks of an answer without halves of pairs: calls of the API's own tools that have no result, and the reverse.

    The API refuses either with every later request, and some gateways send them. `open_before` are calls of a paused
    message, whose results this one brings; an answer that `continues` may leave its own calls open as well. From the
    first block that is left out on thinking is left out too: it is bound to all that was before it.
    """
    results = {_result_of(block): at for at, block in enumerate(blocks) if _result_of(block)}
    open_calls, seen = set(open_before), set(open_before)
    kept: list[dict[str, Any]] = []
    whole = True
    for at, block in enumerate(blocks):
        if is_server_call(block):
            call = str(block.get("id"))
            fits = call not in seen and (continues or results.get(call, -1) > at)
            open_calls |= {call} if fits else set()
            seen.add(call)
        elif called := _result_of(block):
            fits = called in open_calls
            open_calls.discard(called)
        else:
            fits = whole or block["type"] not in THINKING
        whole = whole and fits
        if fits:
            kept.append(dict(block))
    return kept


def open_server_calls(blocks: Iterable[Json]) -> set[str]:
    """The ids of calls of the API's own tools that have no result among `blocks`, which consecutive answers hold."""
    found: set[str] = set()
    for block in blocks:
        if is_server_call(block):
            found.add(str(block.get("id")))
        found.discard(_result_of(block))
    return found


def is_server_call(block: Json) -> bool:
    """Return whether the API itself runs this call."""
    return str(block["type"]) == "server_tool_use"


def _result_of(block: Json) -> str:
    """The id of the call of the API's own tools whose result the block is; "" for any other block."""
    return str(block.get("tool_use_id")) if block["type"] in _SERVER_RESULTS else ""


def valid_history(messages: Sequence[Json]) -> list[Message]:
    """`messages` made a conversation that the API takes; what has lost its place becomes text.

    From the first change on thinking is left out: it is bound to all that was before it.
    """
    kept: list[Message] = []
    taken: set[str] = set()
    changed = False
    open_calls: list[_Call] = []
    for message in messages:
        blocks = _blocks(message["content"])
        if message["role"] == "assistant":
            if open_calls:
                kept.append({"role": "user", "content": _results(open_calls, ())})
            begins_compacted = not kept and any(block["type"] == "compaction" for block in blocks)
            changed = changed or not (kept or begins_compacted) or bool(open_calls)
            if not kept and not begins_compacted:
                kept.append({"role": "user", "content": [_text("(The beginning of this conversation is lost.)")]})
            valid, open_calls = _valid_answer(blocks, taken, without_thinking=changed)
        else:
            valid, open_calls = _results(open_calls, blocks), []
        as_it_was = valid == list(blocks)
        changed = changed or not as_it_was
        if valid:
            kept.append(dict(message) if as_it_was else {**message, "content": valid})
    if open_calls:
        kept.append({"role": "user", "content": _results(open_calls, ())})
    return kept


_Call = tuple[str, str]
"""The id that a call had, and the one that it has now."""


def _valid_answer(
    blocks: Sequence[Json], taken: set[str], *, without_thinking: bool
) -> tuple[list[dict[str, Any]], list[_Call]]:
    calls: list[_Call] = []
    valid: list[dict[str, Any]] = []
    for block in complete_pairs(blocks):
        if not is_known(block) or (without_thinking and block["type"] in THINKING) or _is_blank(block):
            continue
        if block["type"] == "tool_use":
            new = unique_id(str(block["id"]), taken)
            taken.add(new)
            calls.append((str(block["id"]), new))
            block = {**block, "id": new, "name": usable_name(str(block["name"]))}
        valid.append(dict(block))
    return valid, calls


def _results(open_calls: Sequence[_Call], blocks: Sequence[Json]) -> list[dict[str, Any]]:
    """The blocks of a user's message behind these calls: first the result of each, then the rest."""
    found: dict[str, dict[str, Any]] = {}
    rest: list[dict[str, Any]] = []
    for block in blocks:
        if block["type"] != "tool_result":
            rest += [] if _is_blank(block) else [dict(block)]
            continue
        call = next((new for old, new in open_calls if old == block["tool_use_id"] and new not in found), None)
        if call is not None:
            found[call] = {**block, "tool_use_id": call}
        else:
            told = " ".join(str(part["text"]) for part in _blocks(block.get("content") or []) if part["type"] == "text")
            rest.append(_text(f"(The result of a call that is lost: {told.strip() or 'no text'})"))
    lost = {"type": "tool_result", "content": LOST_RESULT, "is_error": True}
    return [*(found.get(new) or {**lost, "tool_use_id": new} for _, new in open_calls), *rest]


def _is_blank(block: Json) -> bool:
    return block["type"] == "text" and not str(block["text"]).strip()


def _blocks(content: str | Sequence[Json]) -> Sequence[Json]:
    return [_text(content)] if isinstance(content, str) else content


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def begins_turn(message: Mapping[str, Any]) -> bool:
    """Return whether the message is a prompt: from the user's side, no result of a call, and no "go on" of ours."""
    if message["role"] != "user":
        return False
    content = message["content"]
    if isinstance(content, str):
        return True
    if is_after_boundary(content):
        return False
    if any(block.get("type") == "tool_result" for block in content):
        return False
    if any(block.get("text") == GO_ON for block in content):
        return False
    return not all(block.get("type") == "text" and is_note(block["text"]) for block in content)


def is_attached(text: str) -> bool:
    """Return whether a text of a user message is what Claude was told besides the user's words."""
    return text == PLAN_MODE or _CONTEXT.fullmatch(text) is not None


def split_attached(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The texts of a prompt, taken apart: the user's own words, and what Claude was told besides."""
    attached = [text for text in texts if is_attached(text)]
    words = [text for text in texts if text not in attached]
    if not words and attached:  # the user wrote nothing but a tag
        *attached, words_in_tag = attached
        words = [words_in_tag]
    return words, attached


def until_turn_ended(lines: Sequence[Line], turn: int) -> list[Line] | None:
    """The first of `lines` (those in effect) up to the end of the turn of this number, from 1; None if there is none."""
    number = 0
    for at, line in enumerate(lines):
        if begins_turn(json.loads(line.message)):
            number += 1
            if number > turn:
                # a summary behind it was made for the turns that follow
                return list(lines[: next(end for end in range(at, 0, -1) if is_said(lines[end - 1]))])
    return list(lines) if number == turn else None


def begins_turn_encoded(message: bytes) -> bool:
    """The same of an encoded message, which is decoded only where it may be one: a session has thousands of results."""
    # within a JSON string the quotes would stand behind backslashes
    return message.startswith(_USER) and _RESULT not in message and begins_turn(json.loads(message))
