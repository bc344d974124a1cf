"""`/index` and the line of `/status` about the index of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.commands.command import CommandCall
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError


def test_the_index_is_begun_shown_and_made_anew(tmp_path: Path, own_place: Path) -> None:
    (tmp_path / "app.py").write_text("def serve(): ...\n")
    conversation = Conversation(cwd=tmp_path, interface="a test", environ={"HOME": str(own_place)})

    def rows(command_line: str) -> dict[str, str]:
        command, text = command_of(command_line)
        page = conversation.thread.submit(answer_of(command, CommandCall(conversation, RunOptions(), text))).future
        return dict(page.result(60).sections[0].rows)

    try:
        assert rows("/status")["index of the code"].startswith("not begun")
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
