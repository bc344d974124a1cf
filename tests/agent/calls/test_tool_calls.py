"""Commands of one message that only read run at the same time; whatever does more keeps its place in the order."""

import asyncio
import contextlib
import os
import threading

import pytest
from tests.agent.plain_tools import look

from cellwright.agent.calls.approval import Allow
from cellwright.agent.calls.tool_calls import ParallelCalls
from cellwright.events import Decided, ToolEnd, ToolStart
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import say, turn, use
from cellwright.tools.shell.bash import bash_tool

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs bash")

NAMES = tuple("abcdefghij")


class Fifos:
    """One fifo for each command. All are written to once the last command has opened its own, and not before."""

    def __init__(self, folder, names=NAMES):
        self.paths = [folder / f"fifo-{name}" for name in names]
        for path in self.paths:
            os.mkfifo(path)
        self.all_open = threading.Event()
        self._thread = threading.Thread(target=self._meet, daemon=True)
        self._thread.start()

    def _meet(self):
        # opening waits for the reader: a command that waits for another's end would never come here
        files = [path.open("w") for path in self.paths]
        self.all_open.set()
        for path, file in zip(self.paths, files, strict=True):
            with contextlib.suppress(BrokenPipeError), file:  # a run that was stopped reads no more
                file.write(f"{path.name} was read\n")


def bash(command, **more):
    # longer than any machine needs: only calls that wait for each other take so long
    return use("Bash", command=command, timeout=100_000, **more)


def contents(played):
    return [result["content"].strip() for result in played.results()]


def policy(folder, mode="default", **rules):
    return PermissionPolicy(mode=mode, roots=(folder,), cwd=folder, **rules)


@pytest.mark.parametrize("mode", ["default", "plan", "bypassPermissions"])
def test_ten_commands_that_only_read_run_at_once(play, tmp_path, mode):
    fifos = Fifos(tmp_path)
    calls = [bash(f"cat {path.name}") for path in fifos.paths]
    played = play([turn(*calls), say("Read.")], tools=[bash_tool(tmp_path)], policy=policy(tmp_path, mode))
    assert contents(played) == [f"{path.name} was read" for path in fifos.paths]
    [start] = played.of(ToolStart)
    assert start.parallel
    [batch] = played.end.parallel_batches
    assert (len(batch.tool_use_ids), batch.succeeded, batch.failed) == (10, 10, 0)
    # what the record of the run says of each is in the message's order
    ids = [call.tool_use["id"] for call in start.calls]
    assert [event.tool_use_id for event in played.of(Decided)] == ids
    assert sorted(event.tool_use_id for event in played.of(ToolEnd)) == sorted(ids)


def test_commands_run_beside_other_tools_that_read(play, tmp_path):
    fifos = Fifos(tmp_path, "ab")
    calls = [bash("cat fifo-a"), use("look", name="x"), bash("cat fifo-b")]
    played = play([turn(*calls), say("Read.")], tools=[bash_tool(tmp_path), look])
    assert contents(played) == ["fifo-a was read", "x looks fine", "fifo-b was read"]
    assert len(fifos.paths) == 2


def test_no_more_commands_at_once_than_allowed(play, tmp_path):
    # each sees how many there are: those of a slot that is free again count again
    (tmp_path / "x").write_text("x")
    calls = [bash("cat x") for _ in range(5)]
    played = play([turn(*calls), say("Read.")], tools=[bash_tool(tmp_path)], max_parallel_tools=2)
    ends = 0
    for event in played.events:
        if isinstance(event, ToolEnd):
            ends += 1
        if isinstance(event, Decided):
            decided = [each for each in played.of(Decided) if each.seq <= event.seq]
            assert len(decided) - ends <= 2
    assert ends == 5


def batches(played):
    return [[call.tool_use["input"]["command"] for call in start.calls] for start in played.of(ToolStart)]


def test_what_may_change_something_runs_alone_and_in_its_place(play, tmp_path):
    (tmp_path / "a").write_text("old")
    calls = [bash("cat a"), bash("cat ./a"), bash("echo new > a"), bash("cat a"), bash("cat ./a")]
    played = play([turn(*calls), say("Done.")], tools=[bash_tool(tmp_path)])
    assert contents(played) == ["old", "old", "(no output)", "new", "new"]
    assert batches(played) == [["cat a", "cat ./a"], ["echo new > a"], ["cat a", "cat ./a"]]


def test_a_command_that_changes_its_folder_runs_alone_and_the_next_start_there(play, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "word").write_text(name)
    calls = [
        bash("cd one"),
        bash("cat word"),
        bash("pwd"),
        bash("cd ../two && cat word"),
        bash("cat word"),
        bash("pwd"),
    ]
    played = play([turn(*calls), say("Done.")], tools=[bash_tool(tmp_path)])
    assert contents(played) == ["(no output)", "one", f"{tmp_path}/one", "two", "two", f"{tmp_path}/two"]
    assert batches(played) == [["cd one"], ["cat word", "pwd"], ["cd ../two && cat word"], ["cat word", "pwd"]]


def test_a_command_that_has_to_be_asked_for_is_asked_for_alone(play, tmp_path):
    asked = []

    async def yes(question):
        asked.append(question.input["command"])
        return Allow()

    (tmp_path / "a").write_text("a")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("out")
    calls = [bash("cat a"), bash(f"cat {outside}"), bash("touch b"), bash("cat a")]
    played = play([turn(*calls), say("x")], tools=[bash_tool(tmp_path)], policy=policy(tmp_path), can_use_tool=yes)
    assert asked == [f"cat {outside}", "touch b"]
    assert contents(played) == ["a", "out", "(no output)", "a"]
    assert [len(start.calls) for start in played.of(ToolStart)] == [1, 1, 1, 1]


def test_a_command_of_which_a_hook_makes_another_keeps_its_place(play, tmp_path):
    (tmp_path / "a").write_text("old")

    async def rewrite(hook_input, tool_use_id, context):
        if hook_input["tool_input"]["command"] != "cat ./a":
            return None
        # the calls behind it have had their hooks by the time that this one answers
        for _ in range(20):
            await asyncio.sleep(0)
        updated = {"command": "cat a && echo new > a"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": updated}}

    calls = [bash("cat a"), bash("cat ./a"), bash("cat a"), bash("cat a")]
    played = play([turn(*calls), say("Done.")], tools=[bash_tool(tmp_path)], hooks={"PreToolUse": [rewrite]})
    assert [text.splitlines()[-1] for text in contents(played)] == ["old", "old", "new", "new"]
    assert played.of(ToolStart)[0].parallel


def test_stop_ends_all_of_them_and_each_call_is_answered(scene, tmp_path):
    fifos = Fifos(tmp_path, "abc")
    # they read on when their fifo has ended: only Stop ends them
    calls = [bash(f"cat {path.name} && sleep 1000") for path in fifos.paths]
    played = scene([turn(*calls), say("Never.")], tools=[bash_tool(tmp_path)])

    async def stopped():
        run = asyncio.ensure_future(played.run("go"))
        await asyncio.to_thread(fifos.all_open.wait)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(stopped())
    ends = played.of(ToolEnd)
    assert [event.status for event in ends] == ["interrupted"] * 3
    assert len(played.results()) == 3
    assert played.end.stop_reason == "interrupted"


def test_calls_behind_one_that_is_not_known_yet_wait_for_it():
    async def play_batch():
        order, began = ParallelCalls([True, False, True, False]), []
        gate = asyncio.Event()

        async def call(index, reads):
            with order.place(index):
                if index == 1:
                    await gate.wait()
                await order.may_start(index, reads=reads)
                began.append(index)

        calls = [asyncio.ensure_future(call(index, reads)) for index, reads in enumerate([True, False, True, True])]
        await calls[0]
        assert began == [0]
        gate.set()
        await asyncio.gather(*calls)
        return began

    assert asyncio.run(play_batch()) == [0, 1, 2, 3]


def test_a_call_that_is_refused_holds_nobody_up():
    async def play_batch():
        order = ParallelCalls([False, False])
        with order.place(0):
            pass
        with order.place(1):
            await order.may_start(1, reads=True)

    asyncio.run(play_batch())
