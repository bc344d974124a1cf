"""A turn late in a long run takes the work of an early one: nothing is done again for each message there is."""

import asyncio
import cProfile
import json
import tracemalloc
from pathlib import Path
from types import CodeType

import cellwright
from cellwright.agent.loop import run_agent
from cellwright.events import TurnEnd
from cellwright.model.anthropic import encode
from cellwright.model.provider import Request
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import say, turn, use
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool

TURNS = 130
EARLY, LATE = range(10, 30), range(105, 125)


OURS = (str(Path(cellwright.__file__).parent), str(Path(json.__file__).parent))
# it reads all messages of every request, and since Python 3.12 a profile has the calls of its thread, too
SERVER = str(Path(cellwright.__file__).parent / "testing")


def is_ours(code: CodeType | str) -> bool:
    """Return whether it is a function of ours or of json: how often asyncio wakes up is the network's doing."""
    return isinstance(code, CodeType) and code.co_filename.startswith(OURS) and not code.co_filename.startswith(SERVER)


def calls_per_turn(counts: list[int], turns: range) -> float:
    """The calls of a turn whose answer came in few pieces: how many there are is the machine's doing."""
    each = sorted(counts[number + 1] - counts[number] for number in turns)
    return each[len(each) // 4]


def test_the_work_of_a_turn_does_not_grow_with_the_conversation(scene, tmp_path):
    (tmp_path / "small.txt").write_text("a line\n" * 20)
    script = [*(turn(say("Once more."), use("Read", file_path="small.txt")) for _ in range(TURNS)), say("Done.")]
    played = scene(
        script,
        tools=[read_tool(FileState(), tmp_path)],
        policy=PermissionPolicy(roots=(tmp_path,), cwd=tmp_path),
    )
    profile, counts = cProfile.Profile(), []

    def on_event(event):
        if isinstance(event, TurnEnd):
            profile.disable()
            counts.append(sum(entry.callcount for entry in profile.getstats() if is_ours(entry.code)))
            profile.enable()

    async def run():
        profile.enable()
        return await run_agent(played.agent, "Read it often.", played.session, on_event)

    try:
        end = asyncio.run(run())
    finally:
        profile.disable()
    assert end.tools_succeeded == TURNS
    early, late = calls_per_turn(counts, EARLY), calls_per_turn(counts, LATE)
    # 190 messages more: one call for each would be a quarter more
    assert late < 1.15 * early, f"{early:.0f} calls a turn became {late:.0f}"


def test_a_long_conversation_is_copied_once_for_a_request():
    message = b'{"role":"user","content":"%b"}' % (b"x" * 2_000)
    request = Request(model="claude-opus-5-5", system=b"[]", tools=b"[]", messages=[message] * 1_000, max_tokens=1_000)
    encode(request)
    tracemalloc.start()
    try:
        body = encode(request)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) > 2_000_000
    assert peak < 1.2 * len(body)
