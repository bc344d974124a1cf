"""`cellwright verify` on small notebooks: what is listed, for people and programs, the exit codes, and a fresh run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4

from cellwright.kernel.cells.verify_command import verify
from cellwright.terminal.main import main

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("forked_kernels")]


def notebook(path: Path, code: str, printed: str, text: str) -> Path:
    made = [
        v4.new_code_cell("%%claude\nLook.", id="ask", execution_count=1),
        v4.new_code_cell(code, id="data", outputs=[v4.new_output("stream", text=printed)], execution_count=2),
        v4.new_markdown_cell(text, id="text"),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "python3"}}
    nbformat.write(v4.new_notebook(cells=made, metadata=kernel), path)
    return path


CODE = "print('visits', 812)\nprint('mean', 2.6312)"


def test_a_notebook_whose_numbers_are_in_its_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(tmp_path / "good.ipynb", CODE, "visits 812\nmean 2.6312\n", "The mean is 2.63 over 812 visits.")
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: 2 of 2 numbers traced\n"


def test_what_no_output_holds_is_listed_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(tmp_path / "bad.ipynb", CODE, "visits 812\nmean 2.6312\n", "812 visits.\n\nIn all 2,137.5 minutes.")
    good = notebook(tmp_path / "good.ipynb", CODE, "visits 812\n", "812 visits.")
    before = path.read_bytes()
    assert verify([str(good), str(path)]) == 1
    assert [line.partition(" cell 3 ")[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["- not found:"]
    assert verify(["--json", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)
    [finding] = found.pop("findings")
    assert found == {"notebook": str(path), "numbers": 2, "traced": 1, "weak": 0, "unsure": 0, "run": None}
    assert (finding["kind"], finding["cell"], finding["line"], finding["text"]) == ("not_found", "text", 3, "2,137.5")
    assert path.read_bytes() == before


def test_a_fresh_run_tells_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(tmp_path / "old.ipynb", CODE, "visits 812\nmean 2.4123\n", "The mean is 2.41 over 812 visits.")
    assert verify([str(path)]) == 0
    capsys.readouterr()
    before = path.read_bytes()
    assert verify(["--run", "--json", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)
    [stale] = found["findings"]
    assert stale["kind"] == "stale"
    assert "2.6312 now" in stale["because"]
    assert (found["run"]["reproduces"], found["run"]["ran"], found["run"]["ended_early"]) == (False, 1, False)
    assert path.read_bytes() == before
    ends = notebook(tmp_path / "ends.ipynb", "1 / 0", "", "Nothing is said.")
    assert verify(["--run", str(ends)]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, b"no JSON", b"\xff\xfe\x00", b'{"cells": 3}', b"[]"])
def test_bad_input_is_said_and_has_a_code_of_its_own(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[Any]
) -> None:
    good = notebook(tmp_path / "good.ipynb", CODE, "visits 812\n", "812 visits.")
    path = tmp_path / "broken.ipynb"
    if content is not None:
        path.write_bytes(content)
    assert main(["verify", str(path), str(good)]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"{path}: ")
    assert printed.out.startswith(f"{good}: 1 of 1 number ")


def test_a_kernel_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(tmp_path / "other.ipynb", CODE, "visits 812\n", "812 visits.")
    path.write_text(path.read_text().replace('"python3"', '"no-such-kernel"'))
    assert verify(["--run", str(path)]) == 2
    assert "no-such-kernel" in capsys.readouterr().err
