"""`%%claude` and `%claude` become plain calls, awaited where the cell is, and nothing else is touched."""

from __future__ import annotations

import ast
import asyncio
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


def call_in(code: str) -> list[str]:
    """The literal arguments of the one call, after the magic's name."""
    statement = ast.parse(code, mode="exec").body[0]
    assert isinstance(statement, ast.Expr)
    call = statement.value
    assert isinstance(call, ast.Call)
    name, *arguments = [ast.literal_eval(argument) for argument in call.args]
    assert name == "claude"
    return arguments


def run_by(shell: InteractiveShell, source: str, awaits: bool) -> list[str]:
    """How a cell called the magic: "awaited" or "plain" for each call."""
    calls: list[str] = []

    class Magic:
        async def awaited_cell(self, *_: str) -> None:
            calls.append("awaited")

        awaited_line = awaited_cell

        def claude(self, _line: str, _cell: str | None = None) -> None:
            calls.append("plain")

    shell.register_magic_function(Magic().claude, "line_cell", "claude")

    async def run() -> None:
        transformed = shell.transform_cell(source)
        if awaits and shell.should_run_async(source, transformed_cell=transformed):
            await shell.run_cell_async(source, transformed_cell=transformed)
        else:
            shell.run_cell(source)

    asyncio.run(run())
    return calls


@for_each_row(
    ("cell", "line", "body"),
    [
        ("%%claude\nhello", "", "hello\n"),
        ("\n\n%%claude --new\nhello\n", "--new", "hello\n"),
        ("%%claude\n>>> 1 + 1\n2\n", "", ">>> 1 + 1\n2\n"),
        ("%%claude\n'''\n\"\"\" \\ {x} $y %z !ls", "", "'''\n\"\"\" \\ {x} $y %z !ls\n"),
        ("# title\n\n%%claude --new\nhello", "--new", "hello\n"),
        ("%%claude", "", ""),
        ("%%claude\n%claude inner\n%%claude\n", "", "%claude inner\n%%claude\n"),
        ("%%claude\nwhat is this?", "", "what is this?\n"),
    ],
)
def test_a_cell_is_called_with_its_text_as_it_stands(shell: InteractiveShell, cell: str, line: str, body: str):
    assert call_in(shell.transform_cell(cell)) == [line, body]


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
def test_a_line_is_called_also_with_a_question_mark(shell: InteractiveShell, cell: str, text: str):
    assert call_in(shell.transform_cell(cell)) == [text]


def test_the_lines_around_it_stay(shell: InteractiveShell):
    code = shell.transform_cell("x = 1\n%claude what is x?\ntext = '''\n%claude not a magic\n'''\n")
    assert code.startswith("x = 1\nget_ipython().run_")
    assert code.endswith("text = '''\n%claude not a magic\n'''\n")


def test_inside_a_block_it_stays_a_plain_call(shell: InteractiveShell):
    code = shell.transform_cell("for i in range(3):\n    %claude and now?\n")
    assert code.split("\n")[1:] == ["    get_ipython().run_line_magic('claude', 'and now?')", ""]


@for_each_row(
    ("source", "called"),
    [
        ("%%claude\nhello", ["awaited"]),
        ("%claude hello", ["awaited"]),
        ("x = 1\n%claude hello\n%claude again\n", ["awaited", "awaited"]),
        ("for _ in range(2):\n    %claude hello\n", ["plain", "plain"]),
        ("def ask():\n    %claude hello\nask()", ["plain"]),
        ("answer = %claude hello", ["plain"]),
        ("exec(get_ipython().transform_cell('%claude hello'))", ["plain"]),
        ("get_ipython().run_cell('%%claude\\nhello')", ["plain"]),
        ("%%time\n%%claude\nhello", ["plain"]),
        ("print('%claude hello')", []),
    ],
)
def test_a_cell_that_is_awaited_awaits_what_is_at_its_top_level(
    shell: InteractiveShell, source: str, called: list[str]
):
    assert run_by(shell, source, awaits=True) == called
    # run on a loop that runs already, without being awaited
    assert run_by(shell, source, awaits=False) == ["plain"] * len(called)


@pytest.mark.parametrize("cell", ["%%claude?", "%claude?", "%%claudette\nx", "%%bash\n%%claude", "print('%claude')"])
def test_what_is_no_call_of_ours_is_left_alone(shell: InteractiveShell, cell: str):
    assert "'claude'" not in shell.transform_cell(cell).replace("'%%claude'", "")


def test_without_autoawait_it_is_a_plain_call(shell: InteractiveShell):
    shell.autoawait = False
    try:
        assert run_by(shell, "%%claude\nx", awaits=True) == ["plain"]
        assert run_by(shell, "%claude x", awaits=True) == ["plain"]
    finally:
        shell.autoawait = True


def test_a_terminal_goes_on_asking_for_lines_until_an_empty_one(shell: InteractiveShell):
    assert shell.check_complete("%%claude\nhello")[0] == "incomplete"
    assert shell.check_complete("%%claude\nhello\n\n")[0] == "complete"
