"""A project's program is run like a command of Bash, without a shell."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.project_programs import ProgramExit, run_program


class Program:
    """Python scripts run in `folder`; `live` is what was shown of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live: list[str] = []

    def run(self, script: str, *, program: str = sys.executable, **more: Any) -> ProgramExit:
        def progress(text: str = "", **_: Any) -> None:
            self.live.append(text)

        options: dict[str, Any] = {
            "environ": {**os.environ, "PWD": "/elsewhere", "MY_TOKEN": "x"},
            "seconds": 20.0,
            **more,
        }
        return asyncio.run(run_program([program, "-c", script], cwd=self.folder, progress=progress, **options))


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_output_and_errors_are_shown_live_and_told(program: Program) -> None:
    ended = program.run("import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)")
    assert ended == ProgramExit(3, "out\nerr\n", None)
    assert "".join(program.live) == "out\nerr\n"


def test_the_standard_output_may_go_to_a_file(program: Program) -> None:
    report = program.folder / "report"
    ended = program.run("import sys; print('out'); print('err', file=sys.stderr)", stdout=report)
    assert (ended.output, report.read_text("utf-8")) == ("err\n", "out\n")


def test_it_is_where_it_runs_and_has_no_secrets(program: Program) -> None:
    script = "import os; print(os.environ['PWD'] == os.getcwd(), 'MY_TOKEN' in os.environ)"
    assert program.run(script).output == "True False\n"


def test_a_signal_is_told_as_a_shell_tells_it(program: Program) -> None:
    cell = program.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert cell.exit_code == 137


def test_what_cannot_be_started_is_said(program: Program) -> None:
    with pytest.raises(ToolError, match=r"no-such-program could not be started: .*No such file") as caught:
        program.run("", program="/nowhere/no-such-program")
    assert caught.value.code == ErrorCode.EXECUTION_ERROR


def test_when_its_time_is_over_its_output_so_far_is_told(program: Program) -> None:
    for seconds in (1, 10, 60):  # a busy machine takes longer to start it
        with pytest.raises(ToolError) as caught:
            program.run("echo begun; sleep 1000", program="/bin/sh", seconds=float(seconds))
        assert caught.value.code == ErrorCode.EXECUTION_TIMEOUT
        assert f"was stopped after {seconds} s" in caught.value.message
        if "begun" in caught.value.message:
            break
    assert "so far:\nbegun" in caught.value.message
