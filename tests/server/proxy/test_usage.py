"""The log of what left the server: one line each, for its owner alone, and never without end."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor

from cellwright.server.proxy.usage import KEPT, EgressLog


def test_lines_of_many_threads_stay_whole(tmp_path):
    log = EgressLog(tmp_path / "deep" / "egress.jsonl")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: log.write({"n": n, "text": "x" * 2000}), range(200)))
    lines = [json.loads(line)["n"] for line in (tmp_path / "deep" / "egress.jsonl").read_text().splitlines()]
    assert sorted(lines) == list(range(200))
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700


def test_old_lines_move_on_and_the_oldest_go(tmp_path):
    log = EgressLog(tmp_path / "egress.jsonl", most_bytes=100)
    for n in range(40):
        log.write({"n": n, "text": "x" * 30})
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["egress.jsonl", *(f"egress.jsonl.{n}" for n in range(1, KEPT + 1))]
    newest_first = [json.loads(line)["n"] for file in files for line in reversed(file.read_text().splitlines())]
    assert newest_first == list(range(39, 39 - len(newest_first), -1))
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.stat().st_size <= 100
