"""`/index` and the line of `/status` about the index of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.commands.command import CommandCall
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.features.conversation import Conversation


def test_the_index_is_begun_shown_and_made_anew(tmp_path: Path, own_place: Path) -> None:
    (tmp_path / "app.py").write_text("def serve(): ...\n")
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ={"HOME": str(own_place)}))

    def rows(command_line: str) -> dict[str, str]:
        command, text = command_of(command_line)
        page = conversation.thread.submit(answer_of(command, CommandCall(conversation, RunOptions(), text))).future
        return dict(page.result(60).sections[0].rows)

    try:
        assert rows("/status")["index of the code"].startswith("not built yet")
        assert not (own_place / "cellwright" / "index").exists(), "/status starts nothing"
        while rows("/index")["state"] != "complete":
            pass  # each waits two seconds for it
        assert rows("/index rebuild")["project"] == str(tmp_path)
        while rows("/index")["state"] != "complete":
            pass
        page = rows("/index")
        assert (page["files"], page["definitions"]) == ("1 with 1 lines", "1")
        assert rows("/status")["index of the code"].startswith("complete")
        with pytest.raises(CellwrightError, match="Nothing was done"):
            rows("/index away")
    finally:
        conversation.close()


def test_a_service_is_named_before_anything_is_sent(tmp_path: Path, own_place: Path) -> None:
    (tmp_path / "app.py").write_text("def serve(): ...\n")
    settings = own_place / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"cellwright": {"embedding": {"provider": "voyage", "model": "voyage-code-3"}}}')
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ={"HOME": str(own_place)}))

    def meaning(command_line: str) -> str:
        command, text = command_of(command_line)
        page = conversation.thread.submit(answer_of(command, CommandCall(conversation, RunOptions(), text))).future
        return dict(page.result(60).sections[0].rows)["meaning"]

    try:
        first = meaning("/index")
        assert first.startswith("voyage-code-3")
        assert first.endswith("/index embed agrees to that")
        meaning("/index embed")
        while "set VOYAGE_API_KEY" not in (said := meaning("/index")):
            assert "not used yet" not in said
    finally:
        conversation.close()
