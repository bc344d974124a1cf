"""A call that would only fail is answered at once: the user is not asked to allow it, unless the error tells too much."""

import pytest

from cellwright.agent.calls.approval import Allow
from cellwright.events import Asked, ToolEnd
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import say, turn, use
from cellwright.tools.files.edit import edit_tool
from cellwright.tools.files.file_state import FileState


async def allow(_use):
    return Allow()


@pytest.fixture
def edit(play, tmp_path):
    """What became of an `Edit` whose text is not in the file."""
    (tmp_path / "tides.py").write_text("level = 'low'\n")

    def run(**rules):
        script = [
            turn(use("Edit", file_path="tides.py", old_string="level = 'high'", new_string="x")),
            turn(say("Oh.")),
        ]
        policy = PermissionPolicy(roots=(tmp_path,), cwd=tmp_path, **rules)
        return play(script, tools=[edit_tool(FileState(), tmp_path)], policy=policy, can_use_tool=allow)

    return run


def test_the_user_is_not_asked_for_an_edit_that_cannot_be_made(edit):
    scene = edit()
    assert scene.of(Asked) == []
    (end,) = scene.of(ToolEnd)
    assert end.status == "error"
    assert scene.results()[0]["content"] == end.content
    assert "tides.py exists" in end.content


def test_where_claude_may_not_read_the_file_unasked_the_user_is_asked_and_told(edit):
    (asked,) = edit(ask=["Read(tides.py)"]).of(Asked)
    assert "tides.py exists" in asked.preview.warning
