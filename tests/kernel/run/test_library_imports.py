"""Files beside the notebook that have a library's name: Cellwright imports the library, and the user their file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel, Page, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

LIBRARIES = (
    *("httpx2", "httpcore2", "anyio", "msgspec", "anthropic", "markdown_it", "h11"),
    *("idna", "certifi", "sniffio", "pydantic", "pydantic_core", "platformdirs", "PIL"),
    *(
        "tree_sitter",
        "tree_sitter_bash",
        "tree_sitter_python",
        "rapidfuzz",
        "docstring_parser",
        "fastjsonschema",
        "jsonschema",
    ),
    *("rich", "anywidget", "trafilatura", "pypdf", "nbformat", "h2"),
    *("brotli", "zstandard", "socksio", "truststore", "trio", "orjson", "ujson"),
    *("mcp", "sqlite3", "tomllib", "difflib", "secrets", "ssl", "html"),
    *("gzip", "smtplib"),
)
"""What Cellwright and its libraries import or try to, of other people's and of Python's own."""

TRAP = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch(); raise RuntimeError('not the library')"


@pytest.fixture
def trapped(model: MessagesServer, tmp_path: Path) -> Iterator[NotebookKernel]:
    """A kernel in a folder where each of LIBRARIES is a file that says when it is run; nothing of ours is loaded yet."""
    folder = tmp_path / "cloned"
    folder.mkdir()
    environ = {**model_of(model), "HOME": str(tmp_path), "CELLWRIGHT_HOME": str(tmp_path / "c")}
    with running_kernel(folder, environ, as_for_users=True) as kernel:
        # after its start: the kernel itself imports what is in its folder, which is Jupyter's affair
        for name in LIBRARIES:
            (folder / f"{name}.py").write_text(TRAP, "utf-8")
        yield kernel


def ran(kernel: NotebookKernel) -> list[str]:
    return json.loads(
        kernel.value(
            "__import__('json').dumps(sorted(p.name for p in __import__('pathlib').Path('.').glob('*.ran')))"
        ).strip("'")
    )


def test_no_file_of_the_folder_runs_in_the_place_of_a_library(trapped: NotebookKernel, model: MessagesServer):
    model.add(
        turn(use("Read", file_path="notes.md"), use("Bash", command="ls"), use("Glob", pattern="*.md")),
        turn(use("Python", code="x = 1"), use("LS", path=".")),
        say("**Done.** `code`"),
    )
    folder = Path(trapped.value("__import__('os').getcwd()").strip("'"))
    (folder / "notes.md").write_text("# Notes", "utf-8")
    assert trapped.run("%load_ext cellwright").status == "ok"
    page = Page(trapped)
    cell = trapped.begin("%%claude --new\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    trapped.finish(cell)
    page.close()
    assert cell.status == "ok"
    assert "**Done.** `code`" in cell.outputs[0]["text/markdown"]
    assert trapped.value("x") == "1"
    trapped.run("%claude /doctor --offline")
    assert ran(trapped) == []
    loaded = trapped.value(
        "[name for name in ('h11', 'msgspec') if 'cloned' in __import__('sys').modules[name].__file__]"
    )
    assert loaded == "[]"


def test_the_users_own_imports_are_left_alone(trapped: NotebookKernel):
    search_path = trapped.value("__import__('sys').path")
    assert "''" in search_path
    trapped.run("%load_ext cellwright")
    trapped.run("import pathlib; pathlib.Path('trio.py').write_text('mine = 1')")
    trapped.run("pathlib.Path('helper.py').write_text('import brotli')")
    trapped.run("pathlib.Path('brotli.py').write_text('mine = 2')")
    trapped.run("import trio, helper")
    value = trapped.value("trio.mine, helper.brotli.mine")
    assert value == "(1, 2)"
    assert trapped.value("__import__('sys').path") == search_path
    cell = trapped.run("import orjson")
    assert "not the library" in str(cell.of_type("error"))


def test_a_plugin_of_the_folder_imports_its_neighbours(trapped: NotebookKernel):
    """Code of the user's that Cellwright calls is the user's."""
    trapped.run("%load_ext cellwright")
    trapped.run("open('plugin.py', 'w').write('def neighbours():\\n    import ujson\\n    return ujson.mine\\n')")
    trapped.run("open('ujson.py', 'w').write('mine = 3')")
    trapped.run("import plugin, cellwright.text as _ours")
    call = "eval(compile('plugin.neighbours()', 'ours.py', 'eval'), {**vars(_ours), 'plugin': plugin})"
    assert trapped.value(call) == "3"


def test_what_is_not_installed_is_not_taken_from_the_folder(trapped: NotebookKernel):
    trapped.run("%load_ext cellwright")
    trapped.run("import cellwright.text as _ours")
    code = "exec(compile('import mcp_not_there', 'ours.py', 'exec'), dict(vars(_ours)))"
    trapped.run("open('mcp_not_there.py', 'w').write('mine = 1')")
    (error,) = trapped.run(code).of_type("error")
    assert error["ename"] == "ModuleNotFoundError"
    assert "not imported" in error["evalue"]


def test_a_library_that_the_user_has_hidden_is_named(trapped: NotebookKernel):
    trapped.run("open('docstring_parser.py', 'w').write('mine = 1')")
    trapped.run("import docstring_parser")
    trapped.run("%load_ext cellwright")
    report = str(trapped.run("%claude /doctor --offline").outputs)
    assert "docstring_parser.py" in report
    assert "Rename" in report


def test_unloading_takes_it_out(trapped: NotebookKernel):
    names = "[type(finder).__name__ for finder in __import__('sys').meta_path]"
    before = trapped.value(names)
    trapped.run("%load_ext cellwright")
    trapped.run("%load_ext cellwright")
    assert trapped.value(names).count("LibraryFinder") == 1
    trapped.run("%unload_ext cellwright")
    assert trapped.value(names) == before
