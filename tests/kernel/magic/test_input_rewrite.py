"""`%%claude` and `%claude` become awaited calls, and nothing else is touched."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from cellwright.kernel.magic.input_rewrite import Rewriting
from row_tables import for_each_row


@pytest.fixture(scope="module")
def shell() -> InteractiveShell:
    return InteractiveShell.instance()


@pytest.fixture(autouse=True)
def rewriting(shell: InteractiveShell) -> Iterator[None]:
    installed = Rewriting(shell)
    installed.install()
    yield
    installed.remove()


def call_in(code: str) -> tuple[str, list[str]]:
    """The awaited method and its literal arguments."""
    statement = ast.parse(code, mode="exec").body[0]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Await)
    call = statement.value.value
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    return call.func.attr, [ast.literal_eval(argument) for argument in call.args]


@for_each_row(
    ("cell", "line", "body"),
    [
        ("%%claude\nhello", "", "hello\n"),
        ("\n\n%%claude --new\nhello\n", "--new", "hello\n"),
        ("%%claude\n>>> 1 + 1\n2\n", "", ">>> 1 + 1\n2\n"),
        ("%%claude\n'''\n\"\"\" \\ {x} $y %z !ls", "", "'''\n\"\"\" \\ {x} $y %z !ls\n"),
        ("%%claude", "", ""),
        ("%%claude\n%claude inner\n%%claude\n", "", "%claude inner\n%%claude\n"),
        ("%%claude\nwhat is this?", "", "what is this?\n"),
    ],
)
def test_a_cell_is_awaited_with_its_text_as_it_stands(shell: InteractiveShell, cell: str, line: str, body: str):
    assert call_in(shell.transform_cell(cell)) == ("awaited_cell", [line, body])


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("%claude explain", "explain"),
        ("%claude what is this?", "what is this?"),
        ("%claude why??", "why??"),
        ("%claude don't stop", "don't stop"),
        ("%claude", ""),
    ],
)
def test_a_line_is_awaited_also_with_a_question_mark(shell: InteractiveShell, cell: str, text: str):
    assert call_in(shell.transform_cell(cell)) == ("awaited_line", [text])


def test_the_lines_around_it_stay(shell: InteractiveShell):
    code = shell.transform_cell("x = 1\n%claude what is x?\ntext = '''\n%claude not a magic\n'''\n")
    assert code.startswith("x = 1\nawait ")
    assert code.endswith("text = '''\n%claude not a magic\n'''\n")


def test_inside_a_block_it_stays_a_plain_call(shell: InteractiveShell):
    code = shell.transform_cell("for i in range(3):\n    %claude and now?\n")
    assert code == "for i in range(3):\n    get_ipython().run_line_magic('claude', 'and now?')\n"


@pytest.mark.parametrize("cell", ["%%claude?", "%claude?", "%%claudette\nx", "%%bash\n%%claude", "print('%claude')"])
def test_what_is_no_call_of_ours_is_left_alone(shell: InteractiveShell, cell: str):
    assert "awaited" not in shell.transform_cell(cell)


def test_without_autoawait_it_stays_a_plain_call(shell: InteractiveShell):
    shell.autoawait = False
    try:
        assert shell.transform_cell("%%claude\nx") == "get_ipython().run_cell_magic('claude', '', 'x\\n')\n"
        assert shell.transform_cell("%claude x") == "get_ipython().run_line_magic('claude', 'x')\n"
    finally:
        shell.autoawait = True


def test_a_terminal_goes_on_asking_for_lines_until_an_empty_one(shell: InteractiveShell):
    assert shell.check_complete("%%claude\nhello")[0] == "incomplete"
    assert shell.check_complete("%%claude\nhello\n\n")[0] == "complete"
