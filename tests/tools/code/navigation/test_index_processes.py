"""The indexer's process: kept for the questions that follow, gone when nobody asks, started anew if it is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from indexed_project import request_for

from cellwright.codebase.store import BUSY, index_path, lock_path
from cellwright.sessions.transcripts.transcript_lock import acquire
from cellwright.tools.code.navigation.index_processes import IndexerProcess
from cellwright.tools.code.navigation.project_code import ProjectCode
from eventual import SECONDS


class Starts:
    """The Pythons that were started with this environment, each noted as it starts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._list = folder / "list"
        note = f"import os\nwith open({str(self._list)!r}, 'a') as file: file.write(f'{{os.getpid()}}\\n')\n"
        (folder / "sitecustomize.py").write_text(note)
        self.environ: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(folder)}

    @property
    def pids(self) -> list[int]:
        return list(map(int, self._list.read_text().split()))


@pytest.fixture
def starts(tmp_path_factory: pytest.TempPathFactory) -> Starts:
    return Starts(tmp_path_factory.mktemp("starts") / "site")


def test_one_process_answers_questions_that_follow_each_other(root: Path, starts: Starts) -> None:
    async def scene() -> None:
        code = ProjectCode(root, (), starts.environ)
        for number in range(3):
            (root / f"later{number}.py").write_text(f"def came_later{number}(): ...\n")
            await code.refresh(SECONDS)
            found = await code.ask(lambda reader, name=f"came_later{number}": reader.definitions(name))
            assert found is not None
            assert [each.file.path for each in found] == [f"later{number}.py"]

    asyncio.run(scene())
    assert len(starts.pids) == 1


def test_a_process_that_went_or_was_ended_is_started_anew(root: Path, starts: Starts) -> None:
    async def look(indexer: IndexerProcess, keep_seconds: float) -> int:
        look = indexer.look(request_for(root, keep_seconds=keep_seconds))
        await asyncio.wait_for(look.ended, SECONDS)
        return look.exit_code

    async def scene() -> None:
        indexer = IndexerProcess(index_path(root), starts.environ)
        for _ in range(5):  # each goes at once, before it is sent the next request or after that
            assert await look(indexer, keep_seconds=0) == 0
        assert await look(indexer, keep_seconds=SECONDS) == 0
        *_, kept = starts.pids
        os.kill(kept, signal.SIGKILL)
        assert await look(indexer, keep_seconds=SECONDS) == 0
        assert starts.pids[-2] == kept

    index_path(root).parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(scene())


def test_every_line_is_answered_and_the_process_ends_by_itself(root: Path) -> None:
    database = index_path(root)
    database.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", "cellwright.codebase.indexer"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request_for(root))
        process.stdin.flush()
        assert process.stdout.readline() == b"0\n"
        lease = acquire(lock_path(database), SECONDS)
        assert lease is not None, "it holds the lock while it looks, and not while it waits"
        process.stdin.write(request_for(root, wait_seconds=0, keep_seconds=0.01))
        process.stdin.flush()
        assert process.stdout.readline() == f"{BUSY}\n".encode()
        assert process.wait(SECONDS) == BUSY
        lease.release()
