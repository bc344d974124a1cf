from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import CannotBeDone, ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.run_tests import frameworks_of, read_go, read_jest, run_tests_tool
from eventual import eventually
from row_tables import for_each_row

REAL_HOME = Path.home()
"""Where rustup has its toolchains; a test has another home."""
LABEXTENSION = Path(__file__).parents[3] / "labextension"


@pytest.fixture(autouse=True)
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is run begins within 0.4 s, and not in 1.7 s with the plugins that happen to be installed beside it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def put(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(folder: Path, *, progress: Any = lambda **_: None, **tool_input: Any) -> ToolResult:
    tool = run_tests_tool(folder)
    check_input(tool, tool_input)
    result = asyncio.run(tool.call(tool_input, ToolContext("", progress)))
    assert isinstance(result, ToolResult)
    return result


def error(folder: Path, **tool_input: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(folder, **tool_input)
    return caught.value


PYTHON_TESTS = """\
import unittest


def helper(value):
    assert value == 2, f"value is {value}"


class Sums(unittest.TestCase):
    def test_right(self):
        self.assertEqual(1 + 1, 2)

    def test_wrong(self):
        helper(3)

    def test_broken(self):
        {}["missing"]

    @unittest.skip("not now")
    def test_later(self):
        pass
"""


def test_pytest_failures_come_with_place_and_traceback(tmp_path):
    put(tmp_path, "tests/test_sums.py", PYTHON_TESTS)
    said: list[str] = []
    result = run(tmp_path, progress=lambda text="", **_: said.append(text))
    text = str(result.content)
    head = text.splitlines()[0]
    assert head.startswith("2 failed, 1 passed, 1 skipped")
    assert head.endswith("code 1: tests failed)")
    assert "tests/test_sums.py:5)" in text
    assert "AssertionError: value is 3" in text
    assert not result.is_error, "the tool did what it was asked for"
    failures = result.structured.failures
    assert {failure["name"]: failure["line"] for failure in failures} == {
        "tests.test_sums.Sums::test_wrong": 5,
        "tests.test_sums.Sums::test_broken": 16,
    }
    assert "failed" in "".join(said), "the output is seen live"


def test_pytest_takes_paths_filter_and_arguments(tmp_path):
    put(tmp_path, "tests/test_sums.py", PYTHON_TESTS)
    put(tmp_path, "tests/test_other.py", "def test_other(): pass\n")
    assert str(run(tmp_path, paths=["tests/test_other.py"]).content).startswith("1 passed")
    assert str(run(tmp_path, filter="right").content).startswith("1 passed")
    assert str(run(tmp_path, paths=["tests/test_sums.py::Sums::test_right"]).content).startswith("1 passed")
    assert str(run(tmp_path, args=["-x"], paths=["tests/test_sums.py"]).content).startswith("1 failed")


def test_pytest_says_what_its_exit_codes_mean(tmp_path):
    put(tmp_path, "tests/test_broken.py", "import nothing_of_this_name\n")
    result = run(tmp_path)
    assert str(result.content).startswith("1 with errors (pytest")
    assert "not be collected" in str(result.content)
    assert "'nothing_of_this_name'" in str(result.content)
    wrong = run(tmp_path, args=["--no-such-option"])
    assert wrong.is_error
    assert "was called wrongly" in str(wrong.content)
    assert "--no-such-option" in str(wrong.content)
    nothing = run(tmp_path, filter="nowhere", args=["--ignore=tests/test_broken.py"])
    assert str(nothing.content).startswith("No tests")
    assert "exit code 5" in str(nothing.content)
    assert not nothing.is_error


def test_tests_that_pass_in_a_run_that_fails_are_explained(tmp_path):
    put(tmp_path, "test_fine.py", "def test_fine(): pass\n")
    put(
        tmp_path,
        "conftest.py",
        "def pytest_sessionfinish(session): session.exitstatus = 1; print('coverage too low')\n",
    )
    text = str(run(tmp_path).content)
    assert text.startswith("1 passed")
    assert "coverage too low" in text


def test_unittest(tmp_path):
    put(tmp_path, "tests/__init__.py", "")
    put(tmp_path, "tests/test_sums.py", PYTHON_TESTS)
    result = run(tmp_path, framework="unittest")
    text = str(result.content)
    assert text.startswith("1 failed, 1 with errors, 1")
    assert "tests/test_sums.py:5)" in text
    assert "AssertionError: value is 3" in text
    assert "tests/test_sums.py:16)" in text
    assert "KeyError: 'missing'" in text
    assert str(run(tmp_path, framework="unittest", filter="right").content).startswith("1 passed")
    for path in ("tests/test_sums.py", "tests", "tests.test_sums.Sums.test_right"):
        assert " passed" in str(run(tmp_path, framework="unittest", paths=[path], filter="right").content)
    assert str(run(tmp_path, framework="unittest", filter="nowhere").content).startswith("No tests")


def test_subtests_and_modules_that_cannot_be_imported_in_unittest(tmp_path):
    put(
        tmp_path,
        "test_sub.py",
        "import unittest\nclass T(unittest.TestCase):\n    def test_all(self):\n        for number in range(3):\n"
        "            with self.subTest(number=number):\n                self.assertNotEqual(number, 1)\n",
    )
    put(tmp_path, "test_broken.py", "import nothing_of_this_name\n")
    text = str(run(tmp_path, framework="unittest").content)
    assert "number=1" in text
    assert "nothing_of_this_name" in text


def test_a_run_past_its_time_is_ended_with_what_it_wrote(tmp_path):
    # unittest is there at once, on a busy machine as well
    put(tmp_path, "test_slow.py", "import sys, time\nprint('begun', file=sys.stderr, flush=True)\ntime.sleep(600)\n")
    for seconds in (5, 30, 60):  # a busy machine takes longer to start it
        told = error(tmp_path, framework="unittest", timeout_seconds=seconds)
        assert told.code == ErrorCode.EXECUTION_TIMEOUT
        if "begun" in told.message:
            break
    assert "begun" in told.message


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_run_that_is_interrupted_leaves_no_process(tmp_path):
    put(
        tmp_path,
        "test_slow.py",
        "import os, time\ndef test_slow():\n    print('pid', os.getpid())\n    time.sleep(60)\n",
    )

    async def scene() -> int:
        said = ""
        begun = asyncio.Event()

        def progress(text: str = "", **_: Any) -> None:
            nonlocal said
            said += text
            if re.search(r"pid \d+\n", said):
                begun.set()

        call = run_tests_tool(tmp_path).call({"args": ["-s"]}, ToolContext("", progress))
        task = asyncio.create_task(call)
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        found = re.search(r"pid (\d+)", said)
        assert found is not None
        return int(found[1])

    status = Path(f"/proc/{asyncio.run(scene())}/stat")
    eventually(lambda: not is_running(status))


def is_running(status: Path) -> bool:
    """Whether a process is there and has not ended (its new parent may take its time to notice)."""
    try:
        return status.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_no_secrets_reach_the_tests(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    put(tmp_path, "test_env.py", "import os\ndef test_env():\n    assert 'ANTHROPIC_API_KEY' not in os.environ\n")
    assert str(run(tmp_path).content).startswith("1 passed")


def test_many_failures_are_bounded(tmp_path):
    body = "".join(f"def test_{number}():\n    assert {number} < 0, 'x' * 5000\n" for number in range(150))
    put(tmp_path, "test_many.py", body)
    text = str(run(tmp_path).content)
    assert len(text) < 100_000
    assert text.startswith("150 failed")
    assert "[and 50 more" in text


NODE_TESTS = """\
const test = require("node:test");
const assert = require("node:assert");
test("right", () => assert.equal(1, 1));
test("wrong", () => assert.equal(1, 2));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_node(tmp_path):
    put(tmp_path, "package.json", json.dumps({"scripts": {"test": "node --test"}}))
    put(tmp_path, "sums.test.js", NODE_TESTS)
    text = str(run(tmp_path).content)
    assert text.startswith("1 failed, 1 passed (node")
    assert "(sums.test.js:4)" in text
    assert str(run(tmp_path, filter="right").content).startswith("1 passed")


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_another_runner_of_npm_gives_its_output(tmp_path):
    put(tmp_path, "package.json", json.dumps({"scripts": {"test": "echo all is well"}}))
    result = run(tmp_path)
    assert str(result.content).startswith("npm test")
    assert "code 0." in str(result.content)
    assert "all is well" in str(result.content)
    put(tmp_path, "package.json", json.dumps({"scripts": {"test": "exit 3"}}))
    assert run(tmp_path).is_error


@pytest.mark.skipif(not (LABEXTENSION / "node_modules/.bin/vitest").exists(), reason="needs the front end's packages")
def test_vitest(tmp_path):
    (tmp_path / "node_modules").symlink_to(LABEXTENSION / "node_modules")
    put(tmp_path, "package.json", json.dumps({"scripts": {"test": "vitest run"}, "type": "module"}))
    put(
        tmp_path,
        "sums.test.ts",
        'import { describe, expect, test } from "vitest";\ndescribe("sums", () => {\n'
        '  test("right", () => expect(1).toBe(1));\n  test("wrong", () => {\n    expect(1).toBe(2);\n  });\n});\n',
    )
    text = str(run(tmp_path).content)
    assert text.startswith("1 failed, 1 passed (vitest, ")
    assert "(sums.test.ts:" in text
    assert "expected 1 to be 2" in text
    assert str(run(tmp_path, filter="right").content).startswith("1 passed")


def usable(program: str) -> bool:
    """Whether there is a toolchain behind the program of this name, which may be rustup's stand-in."""
    found = shutil.which(program)
    return found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not usable("cargo"), reason="needs cargo")
def test_cargo(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSTUP_HOME", str(REAL_HOME / ".rustup"))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    put(tmp_path, "Cargo.toml", '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n')
    put(
        tmp_path,
        "src/lib.rs",
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn right() { assert_eq!(1, 1); }\n    #[test]\n    fn wrong() {\n"
        "        assert_eq!(1, 2);\n    }\n    #[test]\n    #[ignore]\n    fn later() {}\n}\n",
    )
    text = str(run(tmp_path).content)
    assert text.startswith("1 failed, 1 passed, 1 skipped")
    assert "(src/lib.rs:7)" in text
    assert "left: 1" in text
    assert str(run(tmp_path, filter="right").content).startswith("1 passed")
    put(tmp_path, "src/lib.rs", "fn broken( {}\n")
    broken = run(tmp_path)
    assert broken.is_error
    assert "did not compile" in str(broken.content)
    assert "src/lib.rs" in str(broken.content)


def test_jest_report(tmp_path):
    """As jest 29 writes it with --json --testLocationInResults, cut to what is read."""
    failure = (
        "Error: \x1b[2mexpect(\x1b[22mreceived).toBe(expected)\n\nExpected: 2\nReceived: 1\n"
        "    at Object.toBe (/project/src/sums.test.js:4:13)\n    at Promise.then.completed"
    )
    report = {
        "numFailedTests": 1,
        "testResults": [
            {
                "name": "/project/src/sums.test.js",
                "status": "failed",
                "assertionResults": [
                    {"ancestorTitles": ["sums"], "title": "right", "status": "passed", "failureMessages": []},
                    {"ancestorTitles": ["sums"], "title": "later", "status": "pending", "failureMessages": []},
                    {"ancestorTitles": ["sums"], "title": "wrong", "status": "failed", "failureMessages": [failure]},
                ],
            },
            {
                "name": "/project/src/broken.test.js",
                "status": "failed",
                "message": "SyntaxError: x",
                "assertionResults": [],
            },
        ],
    }
    put(tmp_path, "report.json", json.dumps(report))
    read = read_jest(tmp_path / "report.json")
    assert (read.passed, read.failed, read.errors, read.skipped) == (1, 1, 1, 1)
    wrong, broken = read.failures
    assert (wrong.name, wrong.file, wrong.line) == ("sums > wrong", "/project/src/sums.test.js", 4)
    assert wrong.message == "Error: expect(received).toBe(expected)"
    assert (broken.name, broken.message) == ("broken.test.js", "SyntaxError: x")


GO_EVENTS = """\
{"Time":"2024-03-01T10:00:00Z","Action":"start","Package":"example.org/sums"}
{"Action":"run","Package":"example.org/sums","Test":"TestRight"}
{"Action":"output","Package":"example.org/sums","Test":"TestRight","Output":"=== RUN   TestRight\\n"}
{"Action":"pass","Package":"example.org/sums","Test":"TestRight","Elapsed":0}
{"Action":"run","Package":"example.org/sums","Test":"TestTable"}
{"Action":"run","Package":"example.org/sums","Test":"TestTable/two"}
{"Action":"output","Package":"example.org/sums","Test":"TestTable/two","Output":"    sums_test.go:14: got 3, want 2\\n"}
{"Action":"fail","Package":"example.org/sums","Test":"TestTable/two","Elapsed":0}
{"Action":"fail","Package":"example.org/sums","Test":"TestTable","Elapsed":0}
{"Action":"skip","Package":"example.org/sums","Test":"TestLater","Elapsed":0}
{"Action":"fail","Package":"example.org/sums","Elapsed":0.01}
not JSON: printed by a test binary
{"ImportPath":"example.org/broken [example.org/broken.test]","Action":"build-output","Output":"# example.org/broken\\n"}
{"ImportPath":"example.org/broken [example.org/broken.test]","Action":"build-output","Output":"./b.go:3:1: undefined: x\\n"}
{"ImportPath":"example.org/broken [example.org/broken.test]","Action":"build-fail"}
{"Action":"start","Package":"example.org/broken"}
{"Action":"output","Package":"example.org/broken","Output":"FAIL\\texample.org/broken [build failed]\\n"}
{"Action":"fail","Package":"example.org/broken","Elapsed":0,"FailedBuild":"example.org/broken [example.org/broken.test]"}
{"Action":"run","Package":"example.org/hangs","Test":"TestHang"}
{"Action":"output","Package":"example.org/hangs","Test":"TestHang","Output":"panic: test timed out after 1s\\n"}
{"Action":"fail","Package":"example.org/hangs","Elapsed":1}
{"Action":"output","Package":"example.org/main","Output":"flag provided but not defined\\n"}
{"Action":"fail","Package":"example.org/main","Elapsed":0}
"""


def test_go_report(tmp_path):
    """The events as `go help test2json` describes them; there is no go here to record them from."""
    put(tmp_path, "report.jsonl", GO_EVENTS)
    read = read_go(tmp_path / "report.jsonl")
    assert (read.passed, read.failed, read.errors, read.skipped) == (1, 2, 2, 1)
    table, broken, hangs, main = read.failures
    assert (table.name, table.file, table.line, table.message) == (
        "example.org/sums.TestTable/two",
        "sums_test.go",
        14,
        "got 3, want 2",
    )
    assert broken.name.startswith("example.org/broken ")
    assert (broken.file, broken.line, broken.message) == ("./b.go", 3, "undefined: x")
    assert hangs.name == "example.org/hangs.TestHang"
    assert "timed out" in hangs.message
    assert (main.name, main.status) == ("example.org/main", "error")


@for_each_row(
    ("files", "paths", "found"),
    [
        ({"pytest.ini": "[pytest]"}, [], ["pytest"]),
        ({"pyproject.toml": "[tool.pytest.ini_options]"}, [], ["pytest"]),
        ({"pyproject.toml": "[project]"}, [], []),
        ({"tests/test_a.py": ""}, [], ["pytest"]),
        ({"package.json": '{"scripts": {"test": "vitest"}}', "conftest.py": ""}, [], ["pytest", "npm"]),
        ({"package.json": '{"scripts": {"test": "vitest"}}', "conftest.py": ""}, ["a.test.ts"], ["npm"]),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, [], []),
        ({"package.json": "broken"}, [], []),
        ({"go.mod": "", "Cargo.toml": ""}, [], ["go", "cargo"]),
        ({"go.mod": "", "Cargo.toml": ""}, ["tests/x.rs"], ["cargo"]),
        ({}, ["deep/test_x.py::test_y"], ["pytest"]),
        ({}, [], []),
    ],
)
def test_what_a_project_has(tmp_path, files, paths, found):
    for name, text in files.items():
        put(tmp_path, name, text)
    assert frameworks_of(tmp_path, paths) == found


def test_what_is_refused(tmp_path):
    assert "were recognised" in error(tmp_path).message
    assert error(tmp_path, path="nowhere").code == ErrorCode.FILE_PATH_INVALID
    assert error(tmp_path, framework="pytest", paths=["--pdb"]).code == ErrorCode.INVALID_PARAMETERS
    assert error(tmp_path, framework="rspec").code == ErrorCode.INVALID_PARAMETERS
    put(tmp_path, "package.json", json.dumps({"scripts": {"test": "vitest"}}))
    assert "npm install" in error(tmp_path).message
    assert "files in paths" in error(tmp_path, path="package.json").message


def test_the_card_shows_what_will_run(tmp_path):
    put(tmp_path, "test_a.py", "")
    tool = run_tests_tool(tmp_path)
    assert tool.preview is not None
    assert tool.title is not None
    preview = asyncio.run(tool.preview({"paths": ["test_a.py"], "filter": "x"}))
    assert preview.kind == "command"
    assert "-m pytest" in preview.detail
    assert preview.detail.endswith("-k x test_a.py")
    assert "test_a.py" in tool.title({"paths": ["test_a.py"]})
    (tmp_path / "test_a.py").unlink()
    with pytest.raises(CannotBeDone, match="No tests were recognised"):
        asyncio.run(tool.preview({}))
    assert not tool.read_only
