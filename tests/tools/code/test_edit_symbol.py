from __future__ import annotations

import ast
import asyncio
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.codebase.grammars import grammar_of
from cellwright.codebase.symbol_outline import definitions
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.edit_symbol import splice
from row_tables import for_each_row

PYTHON = '''\
#!/usr/bin/env python
import os

# how many
LIMIT = 3


# what it does
@cache
@other(
    1
)
def first(a):
    """Doc."""
    return a
    # and that was it


class Stack:
    """A stack."""

    def __init__(self):
        self.items = []

    @property
    def top(self):
        return self.items[-1]

    @top.setter
    def top(self, item):
        self.items[-1] = item

    async def push(self, item):
        def inner():
            pass
        self.items.append(item)


def last():
    pass
'''

TYPESCRIPT = """\
/** Adds. */
export function add(a: number, b: number): number {
  return a + b;
}

export const twice = (a: number) => {
  return a * 2;
};

export default class Box<T> {
  value = (): T => this.inner;

  @logged()
  // why
  get(name: string): T {
    return this.inner;
  }

  get2(): void {}
}

export interface Shape { area(): number }
function over(a: string): void;
function over(a: number): void;
function over(a: unknown): void {
}
"""

GO = """\
package main

// Push adds.
func (s *Stack[T]) Push(item T) {
\ts.items = append(s.items, item)
}

type (
\tA struct{ x int }
\tB struct{ y int }
)

type Stack[T any] struct {
\titems []T
}

func main() {
}
"""

JAVA = """\
class Outer {
    private int a;

    /** Doc. */
    @Override
    public String toString() {
        return "x";
    }

    Outer(int a) {
        this.a = a;
    }

    static class Inner {
        void run() {}
        void run(int times) {}
    }
}
"""

RUST = """\
/// A point.
#[derive(Debug)]
pub struct Point { x: i32 }

impl Point {
    /// Makes one.
    #[inline]
    pub fn new(x: i32) -> Self {
        Point { x }
    }
}

impl<T> fmt::Display for Wrapper<T> {
    fn fmt(&self) -> i32 {
        1
    }
}

mod tests {
    fn helper() {}
}
"""

CPP = """\
#include <x>

int helper(int a);

// Doc.
template <typename T>
T biggest(T a, T b) {
  return a > b ? a : b;
}

namespace geo {
class Circle : public Shape {
 public:
  Circle();
  ~Circle() {}
  double area() const { return 1; }
  double radius() const;
};

double Circle::radius() const {
  return 2;
}
}  // namespace geo

int helper(int a) {
  return a;
}

typedef struct Pair {
  int a;
} Pair;
"""

FILES = {"a.py": PYTHON, "a.ts": TYPESCRIPT, "a.go": GO, "a.java": JAVA, "a.rs": RUST, "a.cpp": CPP}


def edit(tools, name: str, symbol: str, action: str, new_source: str | None = None, **more) -> str:
    """The text of `name` after an edit of a symbol."""
    path = tools.cwd / name
    if not path.exists():
        path.write_text(FILES[name], newline="")
    tools.result("Read", file_path=name)
    given = {"new_source": new_source} if new_source is not None else {}
    tools.result("EditSymbol", file_path=name, symbol=symbol, action=action, **given, **more)
    return path.read_bytes().decode()


@for_each_row(
    ("name", "symbol", "gone"),
    [
        (
            "a.py",
            "first",
            "# what it does\n@cache\n@other(\n    1\n)\ndef first(a):\n    \"\"\"Doc.\"\"\"\n    return a\n"
            "    # and that was it\n\n\n",
        ),
        ("a.py", "Stack.__init__", "    def __init__(self):\n        self.items = []\n\n"),
        ("a.py", "push", "\n    async def push(self, item):\n        def inner():\n            pass\n"
         "        self.items.append(item)\n"),
        ("a.py", "last", "\n\ndef last():\n    pass\n"),
        ("a.py", "push.inner", "        def inner():\n            pass\n"),
        ("a.ts", "add", "/** Adds. */\nexport function add(a: number, b: number): number {\n  return a + b;\n}\n\n"),
        ("a.ts", "twice", "export const twice = (a: number) => {\n  return a * 2;\n};\n\n"),
        ("a.ts", "Box.value", "  value = (): T => this.inner;\n\n"),
        ("a.ts", "Box.get", "  @logged()\n  // why\n  get(name: string): T {\n    return this.inner;\n  }\n\n"),
        ("a.ts", "Shape", "export interface Shape { area(): number }\n"),
        ("a.go", "Stack.Push", "// Push adds.\nfunc (s *Stack[T]) Push(item T) {\n\ts.items = append(s.items, item)\n}\n\n"),
        ("a.go", "A", "\tA struct{ x int }\n"),
        ("a.go", "Stack", "type Stack[T any] struct {\n\titems []T\n}\n\n"),
        ("a.go", "main", "\nfunc main() {\n}\n"),
        ("a.java", "Outer.toString",
         '    /** Doc. */\n    @Override\n    public String toString() {\n        return "x";\n    }\n\n'),
        ("a.java", "Outer.Outer", "    Outer(int a) {\n        this.a = a;\n    }\n\n"),
        ("a.java", "Inner", "\n    static class Inner {\n        void run() {}\n        void run(int times) {}\n    }\n"),
        ("a.rs", "Point", "/// A point.\n#[derive(Debug)]\npub struct Point { x: i32 }\n\n"),
        ("a.rs", "Point::new",
         "    /// Makes one.\n    #[inline]\n    pub fn new(x: i32) -> Self {\n        Point { x }\n    }\n"),
        ("a.rs", "Wrapper::fmt", "    fn fmt(&self) -> i32 {\n        1\n    }\n"),
        ("a.rs", "tests.helper", "    fn helper() {}\n"),
        ("a.cpp", "biggest",
         "// Doc.\ntemplate <typename T>\nT biggest(T a, T b) {\n  return a > b ? a : b;\n}\n\n"),
        ("a.cpp", "geo::Circle::radius", "\ndouble Circle::radius() const {\n  return 2;\n}\n"),
        ("a.cpp", "~Circle", "  ~Circle() {}\n"),
        ("a.cpp", "helper", "int helper(int a) {\n  return a;\n}\n\n"),
        ("a.cpp", "Pair", "\ntypedef struct Pair {\n  int a;\n} Pair;\n"),
    ],
)  # fmt: skip
def test_delete_takes_all_that_belongs_to_it_and_nothing_else(tools, name, symbol, gone):
    before = FILES[name]
    assert before.count(gone) == 1
    assert edit(tools, name, symbol, "delete") == before.replace(gone, "")


@for_each_row(
    ("name", "text", "symbol", "left"),
    [
        ("a.js", "// r\nexports.run = function () {\n};\n\nfoo();\n", "run", "foo();\n"),
        ("a.js", "Box.prototype.get = () => 1;\nBox.prototype.set = () => 2;\n", "Box.get",
         "Box.prototype.set = () => 2;\n"),
        ("a.js", "const o = {\n  f() {},\n  g: () => 1,\n};\n", "g", "const o = {\n  f() {},\n};\n"),
        ("a.js", "class A {\n  #m() {}\n  m() {}\n}\n", "A.#m", "class A {\n  m() {}\n}\n"),
        ("a.js", "class A {\n  #m() {}\n  m() {}\n}\n", "#m", "class A {\n  m() {}\n}\n"),
        ("a.js", "class A {\n  #m() {}\n  m() {}\n}\n", "A#m", "class A {\n  #m() {}\n}\n"),
        ("a.cc", "bool V::operator==(V o) {\n  return 1;\n}\nint x;\n", "V::operator==", "int x;\n"),
        ("a.cc", "struct A;\nstruct A {\n};\nint x;\n", "A", "struct A;\nint x;\n"),
        ("a.c", "static int f(void);\n\n#define X 1\n/* it */\nstatic int\nf(void)\n{\n}\n", "f",
         "static int f(void);\n\n#define X 1\n"),
        ("a.c", "char *g(void)\n{\n}\n  #define Y\nint z;\n", "g", "  #define Y\nint z;\n"),
        ("a.go", "package a\ntype S struct{}\n\n\nfunc (S) M() {}\n", "S.M", "package a\ntype S struct{}\n"),
        ("a.tsx", "export function A() {\n  return <b/>;\n}\n", "A", ""),
        ("a.java", "enum E { A, B }\ninterface I { void f(); }\n", "E", "interface I { void f(); }\n"),
    ],
)  # fmt: skip
def test_less_common_forms(tools, name, text, symbol, left):
    (tools.cwd / name).write_text(text)
    assert edit(tools, name, symbol, "delete", allow_syntax_errors=True) == left


def test_replace_moves_the_new_source_to_its_place(tools):
    text = edit(tools, "a.py", "Stack.push", "replace", "async def push(self, *items):\n    self.items += items\n")
    assert "    async def push(self, *items):\n        self.items += items\n\n\ndef last" in text
    text = edit(tools, "a.py", "Stack.push", "replace", "        def push(self):\n            pass")
    assert "    def push(self):\n        pass\n\n\ndef last" in text
    text = edit(tools, "a.py", "Stack.push", "replace", "def push(self):\n        return 1")
    assert "    def push(self):\n        return 1\n\n\ndef last" in text
    text = edit(tools, "a.java", "toString", "replace", "public String toString() {\n        return null;\n    }")
    assert "    public String toString() {\n        return null;\n    }\n" in text


def test_replace_keeps_a_comment_above_unless_there_is_a_new_one(tools):
    assert "# what it does\ndef first():\n    return 2\n\n\nclass" in edit(
        tools, "a.py", "first", "replace", "def first():\n    return 2\n"
    )
    text = edit(tools, "a.py", "first", "replace", "# new\ndef first():\n    return 2\n")
    assert "LIMIT = 3\n\n\n# new\ndef first():\n    return 2\n\n\nclass" in text
    text = edit(tools, "a.rs", "Point::new", "replace", "pub fn new() -> Self {\n    todo!()\n}")
    assert "    /// Makes one.\n    pub fn new() -> Self {\n        todo!()\n    }\n}" in text


def test_what_may_have_been_forgotten_is_said(tools):
    (tools.cwd / "a.py").write_text(PYTHON)
    (tools.cwd / "a.ts").write_text(TYPESCRIPT)
    for name in ("a.py", "a.ts"):
        tools.result("Read", file_path=name)
    result = tools.text(
        "EditSymbol", file_path="a.py", symbol="first", action="replace", new_source="def first():\n    pass"
    )
    assert "(lines 8-16 " in result
    assert "@cache is gone" in result
    exported = tools.text(
        "EditSymbol", file_path="a.ts", symbol="add", action="replace", new_source="function add() {}"
    )
    assert "was exported" in exported


def test_strings_keep_their_lines_and_docstrings_move(tools):
    new = 'def push(self):\n    """Doc.\n\n    More.\n    """\n    return """\nleft\n  two\n"""\n'
    text = edit(tools, "a.py", "Stack.push", "replace", new)
    assert (
        '    def push(self):\n        """Doc.\n\n        More.\n        """\n        return """\nleft\n  two\n"""\n\n\n'
        in text
    )
    script = edit(tools, "a.ts", "Box.get", "replace", "get() {\n  return `\na\n  b`;\n}")
    assert "  get() {\n    return `\na\n  b`;\n  }\n" in script


def test_blanks_become_tabs_where_the_file_has_tabs(tools):
    text = edit(
        tools, "a.go", "Stack.Push", "replace", "func (s *Stack[T]) Push() {\n    if true {\n        f()\n    }\n}"
    )
    assert "// Push adds.\nfunc (s *Stack[T]) Push() {\n\tif true {\n\t\tf()\n\t}\n}\n\ntype (" in text


@for_each_row(
    ("name", "symbol", "action", "new", "there"),
    [
        ("a.py", "first", "insert_before", "def zero(): ...", "LIMIT = 3\n\n\ndef zero(): ...\n\n\n# what it does"),
        ("a.py", "first", "insert_after", "x = 1", "# and that was it\n\n\nx = 1\n\n\nclass Stack"),
        ("a.py", "last", "insert_after", "def more():\n    pass", "def last():\n    pass\n\n\ndef more():\n    pass\n"),
        ("a.py", "__init__", "insert_before", "x: int", '"""A stack."""\n\n    x: int\n\n    def __init__'),
        ("a.py", "Stack.push", "insert_after", "def pop(self):\n    pass",
         "append(item)\n\n    def pop(self):\n        pass\n\n\ndef last"),
        ("a.ts", "Box.get", "insert_before", "a(): void {\n}", "inner;\n\n  a(): void {\n  }\n\n  @logged()"),
        ("a.ts", "Box.get2", "insert_after", "b(): void {\n}",
         "get2(): void {}\n\n  b(): void {\n  }\n}\n\nexport interface"),
        ("a.java", "Inner.run", "insert_after", "void stop() {}", "int times) {}\n        void stop() {}\n    }\n}"),
        ("a.rs", "helper", "insert_before", "fn other() {\n}", "mod tests {\n    fn other() {\n    }\n\n    fn helper"),
        ("a.cpp", "radius", "insert_after", "int x() {\n  return 1;\n}",
         "2;\n}\n\nint x() {\n  return 1;\n}\n}  // namespace"),
        ("a.go", "main", "insert_before", "// f\nfunc f() {}", "items []T\n}\n\n// f\nfunc f() {}\n\nfunc main"),
    ],
)  # fmt: skip
def test_insert_with_the_blank_lines_of_the_language(tools, name, symbol, action, new, there):
    more = {"occurrence": 2} if symbol == "Inner.run" else {}
    text = edit(tools, name, symbol, action, new, **more)
    assert there in text
    assert len(text) - len(FILES[name]) < len(new) * 2 + 20


def test_several_of_one_name_are_listed_and_chosen_by_occurrence(tools):
    (tools.cwd / "a.py").write_text(PYTHON)
    tools.result("Read", file_path="a.py")
    error = tools.error("EditSymbol", file_path="a.py", symbol="Stack.top", action="delete")
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert "1. line 26:" in error.message
    assert "2. line 30:" in error.message
    text = edit(tools, "a.py", "top", "delete", occurrence=2)
    assert "def top(self):" in text
    assert "top.setter" not in text
    assert (
        "no occurrence 3"
        in tools.error("EditSymbol", file_path="a.py", symbol="top", action="delete", occurrence=3).message
        or "top" in text
    )


def test_a_body_is_meant_before_a_prototype_and_a_full_name_before_a_part(tools):
    assert "function over(a: unknown): void {\n  return;\n}" in edit(
        tools, "a.ts", "over", "replace", "function over(a: unknown): void {\n  return;\n}"
    )
    (tools.cwd / "b.py").write_text("class A:\n    def run(self):\n        pass\n\n\ndef run():\n    pass\n")
    assert edit(tools, "b.py", "run", "delete").split("\n") == ["class A:", "    def run(self):", "        pass", ""]


def test_a_name_that_is_not_there_is_answered_with_what_is(tools):
    (tools.cwd / "a.py").write_text(PYTHON)
    tools.result("Read", file_path="a.py")
    near = tools.error("EditSymbol", file_path="a.py", symbol="Stack.pussh", action="delete")
    assert "mean Stack.push" in near.message
    far = tools.error("EditSymbol", file_path="a.py", symbol="qqqqqqq", action="delete")
    assert "first, Stack, Stack." in far.message


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"symbol": "first", "action": "replace"}, "needs new_source"),
        ({"symbol": "first", "action": "delete", "new_source": "x"}, "no new_source"),
        ({"symbol": "::", "action": "delete"}, "not defined"),
    ],
)
def test_input_that_makes_no_sense(tools, given, hint):
    (tools.cwd / "a.py").write_text(PYTHON)
    tools.result("Read", file_path="a.py")
    assert hint in tools.error("EditSymbol", file_path="a.py", **given).message
    assert (tools.cwd / "a.py").read_text() == PYTHON


def test_an_edit_that_would_not_parse_is_refused(tools):
    (tools.cwd / "a.py").write_text("class A:\n    def f(self):\n        pass\n")
    tools.result("Read", file_path="a.py")
    error = tools.error("EditSymbol", file_path="a.py", symbol="A.f", action="delete")
    assert "no longer parse" in error.message
    tools.result("EditSymbol", file_path="a.py", symbol="A.f", action="delete", allow_syntax_errors=True)
    assert (tools.cwd / "a.py").read_text() == "class A:\n"


def test_the_file_must_be_read_and_be_as_it_was(tools):
    path = tools.cwd / "a.py"
    path.write_text(PYTHON)
    assert "Read it first" in tools.error("EditSymbol", file_path="a.py", symbol="last", action="delete").message
    tools.result("Read", file_path="a.py")
    path.write_text(PYTHON + "\n")
    assert "changed on disk" in tools.error("EditSymbol", file_path="a.py", symbol="last", action="delete").message
    assert "no language" in tools.error("EditSymbol", file_path="a.txt", symbol="last", action="delete").message
    assert tools.error("EditSymbol", file_path="b.py", symbol="x", action="delete").code == ErrorCode.FILE_NOT_FOUND


def test_line_ends_encoding_and_a_missing_last_newline_stay(tools):
    path = tools.cwd / "a.py"
    path.write_bytes(b"\xef\xbb\xbfdef a():\r\n    pass\r\n\r\n\r\ndef b():\r\n    return '\xc3\xa9'")
    tools.result("Read", file_path="a.py")
    tools.result("EditSymbol", file_path="a.py", symbol="b", action="insert_after", new_source="def c():\n    pass\n")
    assert path.read_bytes() == (
        b"\xef\xbb\xbfdef a():\r\n    pass\r\n\r\n\r\ndef b():\r\n    return '\xc3\xa9'\r\n\r\n\r\ndef c():\r\n    pass"
    )
    tools.result("EditSymbol", file_path="a.py", symbol="a", action="replace", new_source="def a():\n    return 1\n")
    assert path.read_bytes().startswith(b"\xef\xbb\xbfdef a():\r\n    return 1\r\n\r\n\r\ndef b")


def test_on_a_line_with_other_code_only_its_own_characters_go(tools):
    (tools.cwd / "a.js").write_text("class A { f() {} g() {} }\n")
    tools.result("Read", file_path="a.js")
    error = tools.error("EditSymbol", file_path="a.js", symbol="A.g", action="insert_after", new_source="h() {}")
    assert "shares line 1" in error.message
    tools.result("EditSymbol", file_path="a.js", symbol="A.f", action="replace", new_source="f(x) {}")
    tools.result("EditSymbol", file_path="a.js", symbol="A.g", action="delete")
    assert (tools.cwd / "a.js").read_text() == "class A { f(x) {} }\n"


def test_preview_and_title(tools):
    (tools.cwd / "a.py").write_text(PYTHON)
    tools.result("Read", file_path="a.py")
    preview = tools.preview("EditSymbol", file_path="a.py", symbol="last", action="delete")
    assert "Delete last" in preview.title
    assert "(+0 −4)" in preview.title
    assert "-def last():" in preview.detail
    assert "Insert after last" in tools.title("EditSymbol", file_path="a.py", symbol="last", action="insert_after")


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(sorted(FILES)),
    cuts=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 40)), max_size=4),
    junk=st.text(alphabet="{}()<>:;\"'`#/*\\\n é", max_size=5),
)
def test_in_damaged_code_definitions_are_still_parts_of_the_text(name, cuts, junk):
    text = FILES[name]
    for start, length in cuts:
        text = text[:start] + junk + text[start + length :]
    source = text.encode()
    grammar = grammar_of(Path(name))
    everything = definitions(grammar, source)
    for found in everything:
        assert 0 <= found.start <= found.below_comment <= found.stop <= len(source)
        assert found.names[-1]
        assert 1 <= found.line <= text.count("\n") + 1
        assert found in definitions(grammar, source, found.names[-1])
        for action in ("delete", "insert_before", "insert_after", "replace"):
            with suppress(ToolError):
                spliced = splice(text, source, found, action, "x\n", grammar, name)
                assert len(spliced.text.encode()) <= len(source) + 50


def own_source() -> list[Path]:
    tools = Path(__file__).parents[3] / "src/cellwright/tools"
    return sorted(path for path in tools.rglob("*.py") if path.name != "__init__.py")


@for_each_row("path", own_source()[:25], ids=lambda path: path.name)
def test_in_real_code_each_function_can_be_taken_out_and_put_back(tools, path):
    """Delete and insert again, or replace by itself: the same file."""
    text = path.read_text()
    copy = tools.cwd / path.name
    copy.write_text(text)
    tools.result("Read", file_path=path.name)
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lines = text.splitlines(keepends=True)

    async def scene() -> None:
        for node in functions[:3]:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            source = textwrap.dedent("".join(lines[first - 1 : node.end_lineno]))
            given = {"file_path": path.name, "symbol": node.name, "action": "replace", "allow_syntax_errors": True}
            await tools.run("EditSymbol", {**given, "new_source": source})
            assert copy.read_text() == text

    asyncio.run(scene())
