"""A map that is killed or interrupted, and one whose workers are other processes: no answer is paid for twice."""

from __future__ import annotations

import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest

import cellwright
from cellwright.testing import Gate, MessagesServer, hold, say, turn

PROMPTS = [f"prompt {number}" for number in range(60)]
AT_ONCE = 4

SCRIPT = """
import json, sys, cellwright
result = cellwright.map({prompts!r}, concurrency={at_once}, progress=False)
print(json.dumps([[row.text, row.kept] for row in result]))
"""
PROCESSES = """
import concurrent.futures, multiprocessing, cellwright
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        print(cellwright.map(["a", "b", "c"], executor=executor, schema=list[str], progress=False).values)
"""
DASK = """
from distributed import Client, LocalCluster
import cellwright
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        print(cellwright.map(["a", "b", "c"], executor=client.get_executor(), progress=False).texts)
"""


def prompt_of(body):
    return body["messages"][0]["content"][-1]["text"]


def run(script, server, tmp_path):
    """Start `script` as a program of its own."""
    file = tmp_path / "script.py"
    file.write_text(script)
    return subprocess.Popen(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env={**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stored(home):
    """The prompts' answers that are on disk, whole."""
    texts = []
    for file in (home / "cellwright" / "maps").glob("*.jsonl"):
        for line in file.read_bytes().split(b"\n"):
            try:
                texts.append(json.loads(line)["text"])
            except (ValueError, KeyError):
                continue
    return texts


def test_killed_at_random_and_called_again_it_asks_only_for_what_is_missing(messages_server, tmp_path, own_place):
    chance = random.Random(7)
    server: MessagesServer = messages_server(lambda body: say(f"re: {prompt_of(body)}"))
    script = SCRIPT.format(prompts=PROMPTS, at_once=AT_ONCE)
    kills = 0
    for _ in range(4):
        before = len(server.requests)
        kept = Counter(stored(own_place))
        process = run(script, server, tmp_path)
        server.wait_for_finished(before + chance.randrange(1, 12))
        process.kill()
        process.communicate()
        kills += 1
        # what was kept before this run was not asked in it
        asked = [f"re: {prompt_of(request.body)}" for request in server.requests[before:]]
        assert not kept.keys() & set(asked)
    process = run(script, server, tmp_path)
    out, err = process.communicate()
    assert process.returncode == 0, err
    rows = json.loads(out)
    assert [text for text, _ in rows] == [f"re: {prompt}" for prompt in PROMPTS]
    assert any(was_kept for _, was_kept in rows)
    assert server.rejected == []
    times = Counter(prompt_of(request.body) for request in server.requests)
    # twice are those alone that were on their way when it was killed
    assert sum(times.values()) - len(PROMPTS) <= kills * AT_ONCE
    assert stored(own_place) == []


def test_interrupted_it_says_how_far_it_came_and_goes_on_from_there(messages_server, tmp_path):
    gate = Gate()
    server: MessagesServer = messages_server(
        lambda body: turn(hold(gate), say("late")) if prompt_of(body) == "prompt 5" else say("soon")
    )
    script = SCRIPT.format(prompts=PROMPTS[:6], at_once=1)
    process = run(script, server, tmp_path)
    gate.wait_until_reached()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert "interrupted: 5 of 6 prompts are answered and kept" in err
    gate.open()
    process = run(script, server, tmp_path)
    out, err = process.communicate()
    assert json.loads(out) == [*[["soon", True]] * 5, ["late", False]], err
    assert len(server.requests) == 7


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_an_executor_of_processes(messages_server, tmp_path, method):
    server = messages_server(lambda body: say(json.dumps([prompt_of(body)])))
    process = run(PROCESSES.format(method=method), server, tmp_path)
    out, err = process.communicate()
    assert out.strip() == "[['a'], ['b'], ['c']]", err
    assert len(server.requests) == 3


def test_a_cluster_of_dask(messages_server, tmp_path):
    server = messages_server(lambda body: say(f"re: {prompt_of(body)}"))
    process = run(DASK, server, tmp_path)
    out, err = process.communicate()
    assert out.strip().splitlines()[-1:] == ["['re: a', 're: b', 're: c']"], err
    assert len(server.requests) == 3


KILLED_WORKER = """
import json, dask
from distributed import Client, LocalCluster
import cellwright
dask.config.set({"distributed.scheduler.allowed-failures": 0})  # else Dask tries again by itself, three times
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        print(json.dumps([worker.pid for worker in cluster.workers.values()]), flush=True)
        prompts = [f"prompt {n}" for n in range(12)]
        result = cellwright.map(prompts, executor=client.get_executor(), progress=False)
        print(json.dumps([result.texts, [str(each) for each in result.errors]]))
"""


@pytest.mark.thorough  # how soon Dask notices that all its processes are gone depends on the machine's load
def test_a_killed_worker_of_dask_costs_nobody_an_answer(messages_server, tmp_path):
    gate = Gate()
    server = messages_server(
        lambda body: (
            turn(hold(gate), say("late")) if prompt_of(body) == "prompt 5" and not gate.is_open else say("soon")
        )
    )
    process = run(KILLED_WORKER, server, tmp_path)
    pids = json.loads(process.stdout.readline())
    gate.wait_until_reached()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    gate.open()
    out, err = process.communicate()
    assert process.returncode == 0, err
    texts, errors = json.loads(out.strip().splitlines()[-1])
    assert set(texts) <= {"soon", "late"}
    assert errors == []


class Unsteady(concurrent.futures.ThreadPoolExecutor):
    """An executor that loses the first tries of each prompt, in the ways in which clusters do."""

    def __init__(self, losses, ways):
        super().__init__(2)
        self.losses, self.ways, self.tries = losses, ways, Counter()

    def submit(self, function, /, *arguments, **named):
        prompt = arguments[2]
        self.tries[prompt] += 1
        if self.tries[prompt] > self.losses(prompt):
            return super().submit(function, *arguments, **named)
        lost = concurrent.futures.Future()
        if self.ways == "cancelled":
            lost.cancel()
            lost.set_running_or_notify_cancel()
        else:
            lost.set_exception(RuntimeError("the worker died"))
        return lost


@pytest.fixture
def served(messages_server, monkeypatch, asked_here):
    server = messages_server(lambda body: say(f"re: {prompt_of(body)}"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    return server


@pytest.mark.parametrize("ways", ["raised", "cancelled"])
def test_what_an_executor_loses_is_asked_again_and_then_its_rows_error(served, ways):
    with Unsteady(lambda prompt: {"b": 2, "c": 9}.get(prompt, 0), ways) as executor:
        result = cellwright.map(["a", "b", "c", "d"], executor=executor, progress=False)
    assert [row.text for row in result] == ["re: a", "re: b", "", "re: d"]
    assert executor.tries == {"a": 1, "b": 3, "c": 3, "d": 1}
    assert "The executor failed" in str(result[2].error)


def test_so_many_lost_in_a_row_end_the_call(served):
    with (
        Unsteady(lambda _: 99, "raised") as executor,
        pytest.raises(cellwright.CellwrightError, match=r"the worker died.*0 of 100 prompts"),
    ):
        cellwright.map([f"prompt {number}" for number in range(100)], executor=executor, progress=False, concurrency=2)
    assert 10 <= len(executor.tries) < 20


def test_an_executor_that_breaks_ends_it_with_a_reason(messages_server, monkeypatch, asked_here):
    server = messages_server([])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    executor = concurrent.futures.ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(cellwright.CellwrightError, match="The executor takes no more prompts: RuntimeError"):
        cellwright.map(["a"], executor=executor, progress=False)
    assert server.requests == []


def test_the_wait_does_not_hold_the_agents_thread(messages_server, monkeypatch, asked_here):
    """While a map goes on, the conversation answers another thread."""
    gate = Gate()
    server = messages_server(lambda body: turn(hold(gate), say("map")) if prompt_of(body) == "a" else say("asked"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    done = []
    mapping = threading.Thread(target=lambda: done.append(cellwright.map(["a"], progress=False)))
    mapping.start()
    gate.wait_until_reached()
    try:
        assert cellwright.ask("now", session=None).text == "asked"
    finally:
        gate.open()
        mapping.join()
    assert done[0].texts == ["map"]
