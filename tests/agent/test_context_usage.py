"""What fills a session's context, by its stored messages and the API's own count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cellwright.agent.context_usage import ContextContents, context_parts, context_tokens
from cellwright.sessions.api_messages import PLAN_MODE
from cellwright.sessions.session import Session

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 400_000}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def begun(cwd: Path, *messages: dict[str, Any]) -> Session:
    session = Session.create(cwd, None)
    session.begin(
        model="claude-opus-5-5", system=[text("s" * 4_000)], tools=[{"name": "Read", "description": "t" * 8_000}]
    )
    for message in messages:
        session.append(message)
    return session


def parts_of(session: Session) -> dict[str, int]:
    return {part.name: part.tokens for part in context_parts(ContextContents.of(session))}


def test_each_kind_of_content_is_counted_as_what_it_is(tmp_path: Path) -> None:
    prompt = [
        text("<environment>\n" + "e" * 400 + "\n</environment>"),
        text("w" * 4_000),
        text('<attached mention="@a.py" what="file a.py">\n' + "a" * 2_000 + "\n</attached>"),
        text('<attached mention="@p.pdf" what="pages">'),
        PDF,
        text("of the pages " * 100),
        PNG,
        text("</attached>"),
        text(PLAN_MODE),
    ]
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "x" * 800}}
    answer = [{"type": "thinking", "thinking": "h" * 1_200, "signature": "S" * 90_000}, text("A" * 1_600), call]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("r" * 3_200), PNG]}
    session = begun(
        tmp_path,
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": [result, text("and the user says more" * 10)]},
    )
    parts = parts_of(session)
    assert list(parts) == [
        "system", "tools", "told", "attachments", "words", "answers", "thinking", "results", "images"
    ]  # fmt: skip
    about = {
        "system": 1_000, "tools": 2_000, "told": 200, "attachments": 3_830, "words": 1_055,
        "answers": 600, "thinking": 300, "results": 800, "images": 3_000,
    }  # fmt: skip
    for name, tokens in about.items():
        assert abs(parts[name] - tokens) < max(60, tokens * 0.1), (name, parts[name], tokens)


def test_together_they_are_what_the_api_counted_and_what_came_since(tmp_path: Path) -> None:
    session = begun(tmp_path, {"role": "user", "content": "q" * 1_000})
    session.append({"role": "assistant", "content": [text("a" * 999)]}, context_tokens=12_345)
    assert sum(parts_of(session).values()) == 12_345 == context_tokens(session)
    session.append({"role": "user", "content": "n" * 4_000})
    assert sum(parts_of(session).values()) == context_tokens(session)
    assert 13_300 < context_tokens(session) < 13_400


def test_what_is_not_written_in_latin_letters_takes_more(tmp_path: Path) -> None:
    latin, other = (begun(tmp_path, {"role": "user", "content": letter * 3_000}) for letter in "aあ")
    assert parts_of(other)["words"] == 3 * parts_of(latin)["words"]


def test_a_prompt_that_talks_of_tags_is_the_users_own(tmp_path: Path) -> None:
    session = begun(tmp_path, {"role": "user", "content": "<b>is this bold</b> in HTML? " * 20})
    assert "told" not in parts_of(session)


def test_nothing_is_there_before_the_first_message(tmp_path: Path) -> None:
    assert parts_of(Session.create(tmp_path, None)) == {}
    assert parts_of(begun(tmp_path)) == {}
