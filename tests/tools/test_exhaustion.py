"""What is left when something runs out: a clear error for Claude, nothing half done, and all well again afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc are Linux's")

SCENE = '''
import asyncio, json, os, resource, signal, sys
from pathlib import Path
from cellwright.errors import ToolError
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.agent.calls.input_schema import check_input
from cellwright.config.settings.settings import load_settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools
from cellwright.conversation.tools.built_in_tools import whole_tool

cwd = Path.cwd()
made = make_tools(ToolEnvironment(cwd=cwd, settings=load_settings(cwd, os.environ)))
tools = {tool.name: whole_tool(tool) for tool in made}

async def call(name, **tool_input):
    """"ok: …" or "CODE: …"; anything else is a bug of ours."""
    check_input(tools[name], tool_input)
    try:
        result = await tools[name].call(tool_input, ToolContext("toolu_1", lambda **_: None))
    except ToolError as error:
        return f"{error.code}: {error.message}"
    content = result.content if isinstance(result, ToolResult) else result
    return f"ok: {content if isinstance(content, str) else '[blocks]'}"

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def peak_kb():
    """Of this program: `ru_maxrss` has what the process was before it became one."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])
'''


def play(folder: Path, scene: str) -> dict[str, Any]:
    """What the last line of `scene`, run in a process of its own in `folder`, prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", SCENE + textwrap.dedent(scene)], cwd=folder, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_no_descriptors_left(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("find me\n")
    told = play(
        tmp_path,
        """
        async def main():
            told = {"before": {}, "without": {}, "after": {}}
            calls = [
                ("Read", {"file_path": "a.txt"}), ("Grep", {"pattern": "find"}), ("Glob", {"pattern": "*.txt"}),
                ("LS", {"path": "."}), ("Bash", {"command": "cat a.txt"}),
                ("Write", {"file_path": "new.txt", "content": "x"}),
                ("Edit", {"file_path": "a.txt", "old_string": "me", "new_string": "you"}),
            ]
            for name, tool_input in calls[:5]:
                told["before"][name] = await call(name, **tool_input)
            used = descriptors()
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
            taken = []
            try:
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                pass
            for name, tool_input in calls:
                told["without"][name] = await call(name, **tool_input)
            for descriptor in taken:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            told["leaked"] = descriptors() - used
            told["files"] = {p.name: p.read_text() for p in Path(".").iterdir()}
            for name, tool_input in calls:
                told["after"][name] = await call(name, **tool_input)
            print(json.dumps(told))
        asyncio.run(main())
        """,
    )
    assert all(text.startswith("ok: ") for text in told["before"].values()), told["before"]
    assert not any(text.startswith("ok: ") for text in told["without"].values()), told["without"]
    assert all("many open files" in text for text in told["without"].values()), told["without"]
    assert told["files"] == {"a.txt": "find me\n"}, "nothing half done"
    assert told["leaked"] == 0
    assert all(text.startswith("ok: ") for text in told["after"].values()), told["after"]


def test_no_room_on_the_disk(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: writes fail in the same way, in the middle of a file."""
    (tmp_path / "a.txt").write_text("a" * 40_000)
    told = play(
        tmp_path,
        """
        async def main():
            told = {}
            await call("Read", file_path="a.txt")
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
            told["Write"] = await call("Write", file_path="new.txt", content="x" * 50_000)
            told["Edit"] = await call("Edit", file_path="a.txt", old_string="a" * 40_000, new_string="b" * 40_000)
            told["Bash"] = await call("Bash", command="head -c 100000 /dev/zero | tr '\\\\0' x")
            told["files"] = {p.name: p.stat().st_size for p in Path(".").iterdir()}
            told["changed"] = "b" in Path("a.txt").read_text()
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            told["after"] = await call("Write", file_path="new.txt", content="x" * 50_000)
            print(json.dumps(told))
        asyncio.run(main())
        """,
    )
    for name in ("Write", "Edit"):
        assert told[name].startswith("FILE_ACCESS_ERROR: "), told[name]
        assert "File too large" in told[name]
    assert told["Bash"].startswith("ok: xxx"), "a command does not end because its output cannot be kept"
    assert "100,000 bytes in all" in told["Bash"]
    assert "File too large" in told["Bash"]
    assert told["files"] == {"a.txt": 40_000}
    assert not told["changed"]
    assert told["after"].startswith("ok: Created")


def test_no_more_processes(tmp_path: Path) -> None:
    """Where no process can be started: bash itself is missing from every folder of the path."""
    told = play(
        tmp_path,
        """
        async def main():
            sys.executable = "/nowhere/python"
            os.environ["PATH"] = "/nowhere"
            print(json.dumps({"Bash": await call("Bash", command="true")}))
        asyncio.run(main())
        """,
    )
    assert told["Bash"].startswith("EXECUTION_ERROR: bash")


def test_a_child_that_takes_all_memory_leaves_us_alone(tmp_path: Path) -> None:
    told = play(
        tmp_path,
        """
        os.environ["CLAUDE_CODE_TOOL_MEMORY_LIMIT"] = "300M"
        from cellwright.tools.shell.bash import bash_tool
        tools["Bash"] = bash_tool(cwd)
        async def main():
            eat = "python3 -c 'x = [bytearray(10_000_000) for _ in range(1000)]'"
            results = await asyncio.gather(*(call("Bash", command=eat) for _ in range(3)))
            print(json.dumps({"results": results, "peak_kb": peak_kb()}))
        asyncio.run(main())
        """,
    )
    for result in told["results"]:
        assert "MemoryError" in result
        assert "may take 300 MiB" in result
    assert told["peak_kb"] < 300_000


def test_twenty_long_outputs_at_once_cost_little_memory(tmp_path: Path) -> None:
    told = play(
        tmp_path,
        """
        async def main():
            await call("Bash", command="true")
            before = peak_kb()
            many = [call("Bash", command="head -c 20000000 /dev/zero | tr '\\\\0' x") for _ in range(20)]
            results = await asyncio.gather(*many)
            print(json.dumps({"ok": [r.startswith("ok: ") for r in results], "more_kb": peak_kb() - before}))
        asyncio.run(main())
        """,
    )
    assert all(told["ok"])
    assert told["more_kb"] < 100_000
