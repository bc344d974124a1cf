"""`cellwright.ask` in processes that were forked from one that has asked, and what of the parent is refused there."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.testing import MessagesServer, say

PROGRAM = """
import json, multiprocessing, os, sys, threading, warnings
from concurrent.futures import ProcessPoolExecutor
import cellwright

warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads is forked: that is what is tried


def ask(number):
    return cellwright.ask(f"worker {number}").text


def ask_of_parent(agent):
    try:
        return agent.ask("never asked").text
    except cellwright.CellwrightError as error:
        return str(error)


agent = cellwright.Agent()
told = {"parent": cellwright.ask("the question of before").text, "agent": agent.ask("agent").text}
from cellwright.python_api import ask as asking
held = threading.Event()

def hold():
    with asking._making:
        held.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as workers:
    told["workers"] = list(workers.map(ask, range(3)))
reader, writer = os.pipe()
if (child := os.fork()) == 0:
    os.write(writer, ask_of_parent(agent).encode())
    sys.exit(0)
os.close(writer)
told["refused"] = os.read(reader, 10_000).decode()
told["ended"] = os.waitpid(child, 0)[1]
told["again"] = agent.ask("agent again").text
print(json.dumps(told))
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_worker_asks_in_a_conversation_of_its_own(
    messages_server: Callable[..., MessagesServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = messages_server([say("Done.")] * 6)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "belongs to the process that this one was forked from" in told.pop("refused")
    assert told == {
        "parent": "Done.",
        "agent": "Done.",
        "workers": ["Done."] * 3,
        "ended": 0,
        "again": "Done.",
    }
    asked = {request.last_user_text.splitlines()[-1]: json.dumps(request.body) for request in server.requests}
    assert sorted(asked) == ["agent", "agent again", "the question of before", "worker 0", "worker 1", "worker 2"]
    # none of the workers goes on with the parent's session
    assert [name for name, body in asked.items() if "worker" in name and "the question of before" in body] == []
