"""`/undo`, `/redo`, `/rewind` as a user meets them: in files, in the conversation, with what they say and ask."""

from __future__ import annotations

import asyncio
import json
import stat
from typing import Any

import pytest

from cellwright.commands.undo import turns_to_undo, undo_turn
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.testing import use


def write(name: str, text: str) -> Any:
    return use("Write", file_path=name, content=text)


def test_the_last_turn_is_taken_back_and_brought_back(work):
    there = work([write("a.py", "one\n"), write("new/deep/b.py", "b\n")])
    there.say("Write both\nplease")
    assert [(file.where, file.kind, file.added) for file in there.changed.files] == [
        ("a.py", "created", 1),
        ("new/deep/b.py", "created", 1),
    ]
    page = there.type("/undo")
    assert "turn 1 “Write both”" in page
    assert there.read("a.py") is None
    assert not (there.cwd / "new").exists()
    question = there.asked[0]
    assert "Undo “Write both”?" in question.preview.title
    assert "a.py will" in question.preview.detail
    assert "+0 −1" in question.preview.detail
    page = there.type("/redo")
    assert "Redone: turn 1" in page
    assert there.read("a.py") == "one\n"
    assert there.read("new/deep/b.py") == "b\n"
    assert "nothing to redo" in there.type("/redo")


def test_a_changed_file_gets_its_bytes_and_its_mode_back(work):
    there = work([use("Read", file_path="a.sh"), use("Edit", file_path="a.sh", old_string="one", new_string="two")])
    path = there.cwd / "a.sh"
    path.write_bytes(b"\xef\xbb\xbfone\r\nrest\n")
    path.chmod(0o750)
    there.say()
    assert path.read_bytes() == b"\xef\xbb\xbftwo\r\nrest\n"
    there.type("/undo")
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\nrest\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_deleted_and_renamed_files_come_back_as_private_as_they_were(work):
    patch = (
        "diff --git a/secret b/secret\ndeleted file mode 100644\n--- a/secret\n+++ /dev/null\n@@ -1 +0,0 @@\n-key\n"
        "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n"
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
    )
    there = work([use("ApplyPatch", patch=patch)])
    there.put("secret", "key\n").chmod(0o600)
    there.put("old.py", "x = 1\n")
    there.put("run.sh", "ls\n").chmod(0o644)
    there.say()
    assert (there.read("secret"), there.read("old.py"), there.read("new.py")) == (None, None, "x = 1\n")
    there.type("/undo")
    assert (there.read("secret"), there.read("old.py"), there.read("new.py")) == ("key\n", "x = 1\n", None)
    assert stat.S_IMODE((there.cwd / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((there.cwd / "run.sh").stat().st_mode) == 0o644
    there.type("/redo")
    assert (there.read("secret"), there.read("old.py"), there.read("new.py")) == (None, None, "x = 1\n")
    assert stat.S_IMODE((there.cwd / "run.sh").stat().st_mode) & 0o111


@pytest.mark.parametrize("anew", ["echo two\n", "echo one\n"])
def test_a_script_that_is_deleted_and_written_anew_can_be_run_again(work, anew):
    steps = [
        use("Read", file_path="a.sh"),
        use("Edit", file_path="a.sh", old_string="one", new_string="1"),
        use("Bash", command="rm a.sh", description="d"),
        write("a.sh", anew),
    ]
    there = work(steps)
    path = there.put("a.sh", "echo one\n")
    path.chmod(0o750)
    there.say()
    assert (there.read("a.sh"), stat.S_IMODE(path.stat().st_mode)) == (anew, 0o644)
    there.type("/undo")
    assert (there.read("a.sh"), stat.S_IMODE(path.stat().st_mode)) == ("echo one\n", 0o750)
    there.type("/redo")
    assert (there.read("a.sh"), stat.S_IMODE(path.stat().st_mode)) == (anew, 0o644)


def test_what_the_user_changed_since_is_left_unless_that_is_asked_for(work):
    there = work([write("a.py", "one\n"), write("b.py", "b\n")])
    there.say()
    there.put("a.py", "mine\n")
    page = there.type("/undo")
    assert "a.py  it" in page
    assert "since then" in page
    assert (there.read("a.py"), there.read("b.py")) == ("mine\n", None)
    assert "Nothing was changed" in there.type("/undo force", "no")
    assert there.read("a.py") == "mine\n"
    there.type("/undo force")
    assert there.read("a.py") is None
    there.type("/redo")
    assert there.read("a.py") == "mine\n"


def test_a_conflict_offers_to_overwrite(work):
    there = work([write("a.py", "one\n"), write("b.py", "b\n")])
    there.say()
    there.put("a.py", "mine\n")
    assert there.type("/undo", "no") == "Nothing was changed"
    labels = [choice.label for choice in there.asked[0].decision.suggestions]
    assert labels == [
        "Undo",
        "Undo, and remove it from the conversation",
        "Also undo later changes",
        "Cancel",
    ]
    there.type("/undo", "Also undo later changes")
    assert (there.read("a.py"), there.read("b.py")) == (None, None)


def test_where_everything_has_changed_since_nothing_is_asked(work):
    there = work([write("a.py", "one\n")])
    there.say()
    there.put("a.py", "mine\n")
    assert "`force` also undoes" in there.type("/undo")
    assert not there.asked
    assert there.read("a.py") == "mine\n"


def test_nobody_to_ask_means_that_it_is_only_said(work):
    there = work([write("a.py", "one\n")])
    there.say()
    page = there.type("/undo", None)
    assert "nothing was changed" in page
    assert "will be deleted" in page
    assert there.read("a.py") == "one\n"
    assert "Undone" in there.type("/undo yes", None)
    assert there.read("a.py") is None


def test_several_turns_go_back_from_the_newest(work):
    edits = [[use("Read", file_path="a.py"), use("Edit", file_path="a.py", old_string="0", new_string="1")]]
    edits += [[use("Edit", file_path="a.py", old_string=str(n), new_string=str(n + 1))] for n in (1, 2)]
    there = work(*edits)
    there.put("a.py", "0\n")
    for _ in edits:
        there.say()
    there.type("/undo 2")
    assert there.read("a.py") == "1\n"
    there.type("/undo")
    assert there.read("a.py") == "0\n"
    assert "no turn to" in there.type("/undo")
    there.type("/redo")
    assert there.read("a.py") == "1\n"
    there.type("/redo")
    assert there.read("a.py") == "3\n"


def test_what_was_restored_must_be_read_again(work):
    there = work([write("a.py", "one\n")], [write("a.py", "two\n")], [write("a.py", "three\n")])
    there.say()
    there.say()
    there.type("/undo")
    assert there.read("a.py") == "one\n"
    there.say()
    assert "was not read" in str(there.conversation.sessions.current.messages)
    assert there.read("a.py") == "one\n"


def test_the_undone_turn_is_told_once(work):
    there = work([write("a.py", "one\n")], [], [])
    there.say("Write it")
    there.type("/undo")
    there.say("And now?")
    assert "turn 1 “Write it”." in there.sent()
    assert ": a.py." in there.sent()
    there.say("Once more?")
    assert "undone" not in there.sent()


def test_a_conversation_is_rewound_and_its_history_stays_in_the_file(work):
    there = work([write("a.py", "one\n")], [write("b.py", "two\n")], [])
    there.say("First")
    there.say("Second")
    path = there.conversation.sessions.current.path
    before = path.read_bytes()
    assert "Undone: turn 2" in there.type("/rewind 2")
    assert (there.read("a.py"), there.read("b.py")) == ("one\n", None)
    assert path.read_bytes().startswith(before)
    there.again()
    there.say("Third")
    texts = json.dumps(there.server.requests[-1].body["messages"])
    assert "First" in texts
    assert '"Second"' not in texts
    assert "no longer in" in texts


def test_the_conversation_alone_and_back_again(work):
    there = work([write("a.py", "one\n")], [])
    there.say("First")
    messages = list(there.conversation.sessions.current.messages)
    there.type("/undo conversation")
    assert there.conversation.sessions.current.messages == []
    assert there.read("a.py") == "one\n"
    there.type("/redo")
    assert there.conversation.sessions.current.messages == messages
    there.again()
    assert there.conversation.sessions.current.messages == messages


def test_an_undo_offers_the_conversation_as_well(work):
    there = work([write("a.py", "one\n")], [])
    there.say("First")
    there.type("/undo", "Undo, and remove it from the conversation")
    assert there.conversation.sessions.current.messages == []
    assert there.read("a.py") is None
    there.say("Second")
    assert [message["role"] for message in there.server.requests[-1].body["messages"]] == ["user"]


def test_rewind_lists_the_turns(work):
    there = work([write("a.py", "one\n")], [use("Bash", command="touch made && echo hi")], [])
    there.say("First one")
    there.say("Second")
    page = there.type("/rewind")
    lines = page.splitlines()
    assert lines[2].split()[0] == "2"
    assert "Second" in lines[2]
    assert "1 effect that stays" in lines[2]
    assert "1 file" in lines[3]
    assert there.changed.effects == ("Bash: touch made && echo hi",)
    page = there.type("/rewind 1 code yes")
    assert "Cannot be undone" in page
    assert "undone" in there.type("/rewind").splitlines()[3]


def test_an_undo_tells_of_turns_that_it_passes_over_because_nothing_of_them_can_be_taken_back(work):
    there = work([write("a.py", "one\n")], [use("Bash", command="touch made")], [])
    for prompt in ("First", "Second", "Third"):
        there.say(prompt)
    page = there.type("/undo")
    [asked] = there.asked
    assert "Cannot be undone:" in asked.preview.detail
    assert "turn 2 “Second”" in asked.preview.detail
    assert "turn 2 “Second”" in page[page.index("Cannot be undone") :]
    assert (there.read("a.py"), there.read("made")) == (None, "")
    again = there.type("/undo")
    assert again.startswith("There is no")
    assert "Bash: touch made" in again[again.index("Cannot be undone") : again.index("Turns")]


def test_a_command_that_only_reads_is_no_effect(work):
    there = work([use("Bash", command="ls -l"), write("a.py", "x\n")])
    there.say()
    assert there.changed.effects == ()


def test_what_a_command_changes_in_a_file_of_the_turn_is_the_turns(work):
    there = work([write("a.py", "one\n"), use("Bash", command="echo two >> a.py")])
    there.say()
    assert there.read("a.py") == "one\ntwo\n"
    there.type("/undo")
    assert there.read("a.py") is None


def test_checkpoints_survive_a_restart(work):
    there = work([write("a.py", "one\n")])
    there.say("First")
    there.again()
    there.type("/undo")
    assert there.read("a.py") is None


def test_turned_off_nothing_is_kept_and_undo_says_so(work, own_place):
    (own_place / ".claude").mkdir()
    (own_place / ".claude" / "settings.json").write_text('{"fileCheckpointingEnabled": false}')
    there = work([write("a.py", "one\n")])
    there.say()
    assert there.read("a.py") == "one\n"
    with pytest.raises(CellwrightError) as caught:
        there.type("/undo")
    assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert "fileCheckpointingEnabled" in caught.value.message
    assert not (own_place / "cellwright" / "checkpoints").exists()


@pytest.mark.parametrize("line", ["/undo twice", "/redo 2", "/rewind 0", "/undo code code3"])
def test_words_that_are_not_understood_are_refused(work, line):
    there = work([])
    with pytest.raises(CellwrightError) as caught:
        there.type(line)
    assert "Usage" in caught.value.message


def test_a_button_takes_back_one_turn_and_leaves_what_later_ones_did(work):
    there = work(
        [write("a.py", "one\n"), write("b.py", "b\n")], [use("Read", file_path="a.py"), write("a.py", "two\n")]
    )
    there.say("First")
    there.say("Second")
    conversation = there.conversation
    assert turns_to_undo(conversation) == [1, 2]
    shown = asyncio.run(undo_turn(conversation, 1, preview=True))
    assert shown["title"] == "Undo “First”?"
    assert "b.py will" in shown["text"]
    assert "a.py: it has" in shown["text"]
    assert (shown["does_something"], shown["conflicts"]) == (True, True)
    assert there.read("b.py") == "b\n"
    done = asyncio.run(undo_turn(conversation, 1, preview=False))
    assert done["title"] == "Undone: “First”"
    assert (there.read("a.py"), there.read("b.py")) == ("two\n", None)
    assert turns_to_undo(conversation) == [2]
    with pytest.raises(CellwrightError):
        asyncio.run(undo_turn(conversation, 7, preview=True))


def test_an_undo_that_was_cut_off_can_be_done_again(work):
    there = work([write("a.py", "one\n"), write("b.py", "b\n")])
    there.say()
    (there.cwd / "a.py").unlink()  # as far as the first one got
    page = there.type("/undo")
    assert "as they are" not in page
    assert (there.read("a.py"), there.read("b.py")) == (None, None)
