from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import CannotBeDone, ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.lint import lint_tool, linters_of, read_flake8
from row_tables import for_each_row

REAL_HOME = Path.home()
LABEXTENSION = Path(__file__).parents[3] / "labextension"


def put(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(folder: Path, **tool_input: Any) -> ToolResult:
    tool = lint_tool(folder)
    check_input(tool, tool_input)
    result = asyncio.run(tool.call(tool_input, ToolContext("", lambda **_: None)))
    assert isinstance(result, ToolResult)
    return result


def error(folder: Path, **tool_input: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(folder, **tool_input)
    return caught.value


def test_ruff_finds_and_fixes(tmp_path):
    put(tmp_path, "pyproject.toml", "[tool.ruff]\nlint.select = ['F']\n")
    put(tmp_path, "src/a.py", "import os\nprint(nothing)\n")
    put(tmp_path, "src/b.py", "x = 1\n")
    result = run(tmp_path)
    assert [line.split()[:2] for line in str(result.content).splitlines()] == [
        ["2", "problems"],
        ["src/a.py:1:8", "F401"],
        ["src/a.py:2:7", "F821"],
    ]
    assert result.structured.problems[0]["fixable"]
    assert (tmp_path / "src/a.py").read_text().startswith("import os")
    assert str(run(tmp_path, paths=["src/b.py"]).content) == "0 problems (ruff)"
    fixed = run(tmp_path, fix=True)
    assert str(fixed.content).startswith("Changed 1 file: src/a.py\n1 problem")
    assert (tmp_path / "src/a.py").read_text() == "print(nothing)\n"
    assert str(run(tmp_path, fix=True).content).startswith("Nothing was changed.")
    assert not (tmp_path / ".ruff_cache").exists()


def test_ruff_takes_a_syntax_error_for_a_problem_and_a_broken_setting_for_an_error(tmp_path):
    put(tmp_path, "a.py", "def (:\n")
    assert "a.py:1:5" in str(run(tmp_path, paths=["a.py"]).content)
    put(tmp_path, "ruff.toml", "no-such-setting = 1\n")
    assert "no-such-setting" in error(tmp_path).message


def test_much_is_bounded(tmp_path):
    put(tmp_path, "a.py", "".join(f"print(name{number})\n" for number in range(300)))
    lines = str(run(tmp_path).content).splitlines()
    assert len(lines) == 202
    assert "[and 100 more" in lines[-1]


@pytest.mark.skipif(not (LABEXTENSION / "node_modules/.bin/eslint").exists(), reason="needs the front end's packages")
def test_eslint(tmp_path):
    (tmp_path / "node_modules").symlink_to(LABEXTENSION / "node_modules")
    rules = '{ rules: { "no-undef": "error", "prefer-const": "error", "no-var": "warn" } }'
    put(tmp_path, "eslint.config.mjs", f"export default [{rules}];\n")
    put(tmp_path, "a.js", "var one = 1;\nlet two = one;\nnothing(two);\n")
    text = str(run(tmp_path).content)
    assert text.startswith("3 problems (eslint, ")
    assert "a.js:3:1 no-undef" in text
    assert "a.js:1:1 warning" in text
    fixed = str(run(tmp_path, fix=True).content)
    assert fixed.startswith("Changed 1 file: a.js")
    assert "const two = one;" in (tmp_path / "a.js").read_text()
    put(tmp_path, "eslint.config.mjs", "throw new Error('broken settings');\n")
    assert "broken settings" in error(tmp_path).message


@pytest.mark.skipif(not (LABEXTENSION / "node_modules/.bin/tsc").exists(), reason="needs the front end's packages")
def test_tsc(tmp_path):
    (tmp_path / "node_modules").symlink_to(LABEXTENSION / "node_modules")
    put(tmp_path, "tsconfig.json", json.dumps({"compilerOptions": {"strict": True, "types": []}, "include": ["a.ts"]}))
    put(tmp_path, "a.ts", "const one: number = 'two';\nexport default one;\n")
    text = str(run(tmp_path).content)
    assert text.startswith("1 problem (tsc):")
    assert "a.ts:1:7 TS2322" in text


def test_mypy(tmp_path):
    put(tmp_path, "mypy.ini", "[mypy]\n")
    put(tmp_path, "a.py", "x: int = 'one'\n")
    text = str(run(tmp_path, linter="mypy").content)
    assert text.startswith("1 problem (mypy):")
    assert "a.py:1:10 assignment" in text
    put(tmp_path, "a.py", "x: int = 1\n")
    assert str(run(tmp_path).content) == "0 problems (mypy)"


def usable(program: str) -> bool:
    """Whether there is a toolchain behind the program of this name, which may be rustup's stand-in."""
    found = shutil.which(program)
    return found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not usable("cargo-clippy"), reason="needs cargo with clippy")
def test_clippy(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSTUP_HOME", str(REAL_HOME / ".rustup"))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    put(tmp_path, "Cargo.toml", '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n')
    put(tmp_path, "src/lib.rs", "pub fn f() -> i32 {\n    return 1;\n}\n")
    assert "lib.rs:2:5 warning clippy::" in str(run(tmp_path, timeout_seconds=110).content)


def test_flake8_report():
    text = "./a.py:1:8: F401 'os' imported but unused\nsomething else\n"
    assert [(each.file, each.line, each.column, each.code) for each in read_flake8(text)] == [("./a.py", 1, 8, "F401")]


@for_each_row(
    ("files", "paths", "found"),
    [
        ({"pyproject.toml": "[tool.ruff]\n[tool.mypy]\n"}, [], ["ruff", "mypy"]),
        ({"ruff.toml": "", ".flake8": ""}, [], ["ruff", "flake8"]),
        ({"setup.cfg": "[flake8]\n"}, [], ["flake8"]),
        ({"eslint.config.js": "", "tsconfig.json": "{}", "ruff.toml": ""}, [], ["ruff", "eslint", "tsc"]),
        ({"eslint.config.js": "", "tsconfig.json": "{}", "ruff.toml": ""}, ["a.ts"], ["eslint", "tsc"]),
        ({"package.json": '{"eslintConfig": {}}'}, [], ["eslint"]),
        ({"Cargo.toml": ""}, [], ["clippy"]),
        ({"a.py": ""}, [], ["ruff"]),
        ({}, ["deep/a.py"], ["ruff"]),
        ({"package.json": "broken", "pyproject.toml": "broken [", "setup.cfg": "broken"}, [], []),
    ],
)
def test_what_a_project_has(tmp_path, files, paths, found):
    for name, text in files.items():
        put(tmp_path, name, text)
    assert linters_of(tmp_path, paths) == found


def test_what_is_refused(tmp_path):
    assert "No linter" in error(tmp_path).message
    assert error(tmp_path, linter="ruff", paths=["--config=x"]).code == ErrorCode.INVALID_PARAMETERS
    assert "cannot fix" in error(tmp_path, linter="mypy", fix=True).message
    assert "npm install" in error(tmp_path, linter="eslint").message
    assert error(tmp_path, path="nowhere").code == ErrorCode.FILE_PATH_INVALID
    (tmp_path / "one.py").write_text("")
    assert "files in paths" in error(tmp_path, path="one.py").message


def test_the_policy_is_told_what_runs_code_of_the_project(tmp_path):
    tool = lint_tool(tmp_path)
    assert tool.facts is not None
    assert not tool.read_only
    assert tool.facts({"linter": "ruff"}) == {"runs_project_code": False}
    assert tool.facts({"linter": "mypy"}) == {"runs_project_code": True}
    assert tool.facts({"linter": "eslint"}) == {"runs_project_code": True}


def test_a_ruff_that_the_project_brought_along_is_not_taken_for_ours(tmp_path):
    put(tmp_path, ".venv/bin/ruff", "#!/bin/sh\ntouch ran\n")
    (tmp_path / ".venv/bin/ruff").chmod(0o755)
    put(tmp_path, "a.py", "x = 1\n")
    assert str(run(tmp_path).content) == "0 problems (ruff)"
    assert not (tmp_path / "ran").exists()


def test_the_card_shows_what_will_run(tmp_path):
    put(tmp_path, "a.py", "")
    tool = lint_tool(tmp_path)
    assert tool.preview is not None
    assert tool.title is not None
    preview = asyncio.run(tool.preview({"fix": True}))
    assert preview.title.startswith("Fix code")
    assert "ruff" in preview.title
    assert "--fix" in preview.detail
    assert tool.title({"fix": True, "paths": ["a.py"]}) == "Fix a.py"
    with pytest.raises(CannotBeDone, match="eslint"):
        asyncio.run(tool.preview({"linter": "eslint"}))
