from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cellwright.errors import ErrorCode
from cellwright.tools.code.syntax_check import CHECKED_BYTES, syntax_problem
from row_tables import for_each_row

GOOD_AND_BAD = [
    ("a.py", "def f():\n    return 1\n", "def f(:\n    return 1\n", 1),
    ("a.py", "def f():\n    return 1\n", "def f():\nreturn 1\n", 2),
    ("a.py", "if a:\n    b\n    c\n", "if a:\n    b\n  c\n", 3),
    ("a.pyi", "x: int\n", "x: int)\n", 1),
    ("a.js", "f(() => 1)\n", "f(() => 1\n", 1),
    ("a.mjs", "export const a = 1;\n", "export const = 1;\n", 1),
    ("a.jsx", "const a = <b>x</b>;\n", "const a = <b>x;\n", 1),
    ("a.ts", "let a: number = 1;\n", "let a: = 1;\n", 1),
    ("a.tsx", "const a = <b<c>>x</b>;\n", "const a = <b>x</b;\n", 1),
    ("a.go", "package a\n\nfunc f() {\n}\n", "package a\n\nfunc f() {\n", 3),
    ("a.java", "class A {\n    int a;\n}\n", "class A {\n    int;\n}\n", 2),
    ("a.rs", "fn a() {\n    b();\n}\n", "fn a() {\n    b(;\n}\n", 2),
    ("a.sh", "if true; then\n  echo\nfi\n", "if true; then\n  echo\n", 3),
    ("a.json", '{"a": [1]}\n', '{"a": [1}\n', 1),
    ("a.toml", 'a = 1\n[b]\nc = "d"\n', 'a = 1\n[b\nc = "d"\n', 2),
]


@for_each_row(("name", "good", "bad", "line"), GOOD_AND_BAD)
def test_what_parsed_must_still_parse(tools, name, good, bad, line):
    path = tools.cwd / name
    path.write_text(good)
    tools.result("Read", file_path=name)
    for tool, given in (
        ("Write", {"content": bad}),
        ("Edit", {"old_string": good, "new_string": bad}),
        ("MultiEdit", {"edits": [{"old_string": good, "new_string": bad}]}),
    ):
        error = tools.error(tool, file_path=name, **given)
        assert error.code == ErrorCode.INVALID_PARAMETERS
        assert error.message.startswith(f"{name} would no longer")
        assert error.details["line"] == line
        assert path.read_text() == good
        assert "no longer parse" in tools.cannot(tool, file_path=name, **given).error.message
    text = tools.text("Write", file_path=name, content=bad, allow_syntax_errors=True)
    assert "no longer parses" in text
    assert path.read_text() == bad
    # what is broken may be changed, and mended
    broken = tools.text("Write", file_path=name, content=f"{bad}{bad}")
    assert broken.startswith("Wrote")
    assert "parse" not in tools.text("Write", file_path=name, content=good)


GUESSED = [
    ("a.c", "int f(void) { return 1; }\n", "int f(void) { return 1 }\n"),
    ("a.hpp", "class A { int a; };\n", "class A { int a; \n"),
    ("a.cpp", "int a;\n", "Q_OBJECT_LIKE(A B) int a\nFOR_EACH(x) x();\n"),
    ("a.d.ts", "declare const a: number;\n", "declare const a: = 1;\n"),
]


@for_each_row(("name", "good", "bad"), GUESSED)
def test_where_the_grammar_only_guesses_the_edit_is_made_with_a_note(tools, name, good, bad):
    path = tools.cwd / name
    path.write_text(good)
    tools.result("Read", file_path=name)
    assert "may not parse" in tools.text("Edit", file_path=name, old_string=good, new_string=bad)
    assert path.read_text() == bad
    assert "parse" not in tools.text("Write", file_path=name, content=good)


@for_each_row(("name", "good", "bad", "line"), GOOD_AND_BAD)
def test_a_new_file_is_written_as_it_is_with_a_note(tools, name, good, bad, line):
    assert "parse" not in tools.text("Write", file_path=f"new/{name}", content=good)
    assert f"not parse, line {line}:" in tools.text("Write", file_path=name, content=bad)
    assert (tools.cwd / name).read_text() == bad


def test_what_only_another_python_takes_is_no_error(tools):
    path = tools.cwd / "a.py"
    path.write_text("x = 1\n")
    tools.result("Read", file_path="a.py")
    text = tools.text("Edit", file_path="a.py", old_string="x = 1", new_string="print 'x'")
    assert "not parse, line 1:" in text
    # nor does it hide what no Python takes
    error = tools.error("Edit", file_path="a.py", old_string="print 'x'", new_string="print 'x')")
    assert "no longer parse" in error.message


def test_what_is_not_looked_at():
    assert syntax_problem(Path("a.txt"), "def (") is None
    assert syntax_problem(Path("a.py"), "(" + "x" * CHECKED_BYTES) is None
    assert syntax_problem(Path("a.json"), "[" * 100_000) is None
    assert syntax_problem(Path("A.PY"), "def (") is not None


@for_each_row("text", ["(" * 50_000, "-" * 200_000 + "1", "[" * 300_000, "f'{" * 3000, "\0", "x = 1\\"])
def test_code_that_is_hard_on_a_compiler_harms_nobody(text):
    syntax_problem(Path("a.py"), text)
    syntax_problem(Path("a.js"), text)


def test_no_warning_reaches_the_user(recwarn):
    assert syntax_problem(Path("a.py"), "x = '\\d'\nassert (x, 'y')\nx is 1\n") is None
    assert len(recwarn) == 0


@pytest.mark.parametrize("name", ["a.js", "a.cpp", "a.py"])
def test_others_run_while_a_large_file_is_parsed(name):
    source = {"a.js": "function f(a) { return a + 1; }\n", "a.cpp": "int f(int a) { return a + 1; }\n"}
    text = source.get(name, "def f(a):\n    return a + 1\n")
    text *= (CHECKED_BYTES - 1) // len(text)
    syntax_problem(Path(name), text[:1000])
    ticks, done = 0, threading.Event()

    def watch() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert syntax_problem(Path(name), text) is None
    finally:
        done.set()
        watcher.join()
    # parsed in one piece, it would be one or two
    assert ticks > 5
