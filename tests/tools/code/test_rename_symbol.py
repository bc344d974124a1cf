"""RenameSymbol: all that means the definition and nothing else; what is unclear is asked; the policy sees each file."""

from __future__ import annotations

import asyncio
import json
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from indexed_project import build_index

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.config.settings.settings import load_settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools
from cellwright.errors import ToolError
from cellwright.permissions.policy import PermissionPolicy

CONTEXT = ToolContext("toolu_test", lambda **_: None)


pytestmark = pytest.mark.usefixtures("own_place")


def project(root: Path, files: Mapping[str, str]) -> Path:
    """Write the files and index them."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
    build_index(root)
    return root


def tool_in(root: Path) -> Tool:
    environ = {**os.environ, "HOME": str(root)}
    settings = load_settings(root, environ)
    tools = make_tools(ToolEnvironment(cwd=root, settings=settings, environ=environ))
    return next(tool for tool in tools if tool.name == "RenameSymbol")


def rename(root: Path, symbol: str, new_name: str, **given: Any) -> str:
    tool = tool_in(root)
    values = {"symbol": symbol, "new_name": new_name, **given}
    check_input(tool, values)
    result = asyncio.run(tool.call(values, CONTEXT))  # type: ignore[arg-type]
    assert isinstance(result, ToolResult)
    return str(result.content)


STORE = """\
    from json import load
    __all__ = ["read", "load_rows"]

    def load_rows(store):
        # load_rows of a store
        return "load_rows", load(store)

    def twice(load_rows):
        return load_rows + load_rows

    def both(store):
        return load_rows(store), [load_rows(each) for each in store]
"""


def test_a_function_is_followed_through_scopes_and_imports(tmp_path):
    root = project(
        tmp_path,
        {
            "app/store.py": STORE,
            "app/__init__.py": "from .store import load_rows\n",
            "app/a.py": "from app import load_rows\nimport app.store as s\nload_rows(1), s.load_rows, f(load_rows=2)\n",
            "app/b.py": "from app.store import load_rows as rows\nrows(1)\nload_rows = 3\nprint(load_rows)\n",
            "app/c.py": "import os\nclass A:\n    load_rows = 1\n    def g(self): return self.load_rows\n",
            "other/d.py": "from elsewhere import load_rows\nload_rows()\n",
        },
    )
    result = rename(root, "load_rows", "read_rows")
    assert result.startswith("Renamed load_")
    assert (root / "app/store.py").read_text() == textwrap.dedent("""\
        from json import load
        __all__ = ["read", "read_rows"]

        def read_rows(store):
            # load_rows of a store
            return "load_rows", load(store)

        def twice(load_rows):
            return load_rows + load_rows

        def both(store):
            return read_rows(store), [read_rows(each) for each in store]
    """)
    assert "import read_rows" in (root / "app/__init__.py").read_text()
    assert "read_rows(1), s." in (root / "app/a.py").read_text()
    assert (root / "app/b.py").read_text().split("\n")[1:3] == ["rows(1)", "load_rows = 3"]
    assert "read_rows" not in (root / "app/c.py").read_text()
    assert "read_rows" not in (root / "other/d.py").read_text()


SERVER = """\
    class Server:
        def stop(self):
            return self.stop

        def end(self):
            super().stop()
            self.stop()

    class Quick(Server):
        def stop(self): pass

    class Clock:
        def stop(self): return self.stop

    def use(server: Server, thing):
        server.stop()
        Server().stop()
        thing.stop()
        clock = Clock()
        clock.stop()
"""


def test_a_method_is_followed_through_its_classes_and_what_is_unclear_is_asked_about(tmp_path):
    root = project(tmp_path, {"server.py": SERVER})
    with pytest.raises(ToolError, match=r"\[\] for none.*\nserver\.py:18: thing\.stop\(\)$") as refused:
        rename(root, "Server.stop", "halt")
    assert refused.value.details == {"unclear": ["server.py:18"]}
    assert (root / "server.py").read_text() == textwrap.dedent(SERVER)
    rename(root, "Server.stop", "halt", also=[])
    after = (root / "server.py").read_text()
    assert after.count("halt") == 7
    assert "thing.stop()" in after
    assert "stop(self): return self.stop" in after
    assert "clock.stop()" in after
    assert "Quick(Server):\n    def halt" in after


def test_unclear_places_that_the_call_names_are_renamed_too(tmp_path):
    root = project(tmp_path, {"server.py": SERVER})
    with pytest.raises(ToolError, match=r"at server\.py:1\. Unclear are: server\.py:18\."):
        rename(root, "Server.stop", "halt", also=["server.py:1"])
    rename(root, "Server.stop", "halt", also=["server.py:18"])
    assert "thing.halt()" in (root / "server.py").read_text()


@pytest.mark.parametrize(
    ("symbol", "new_name", "why"),
    [
        ("nothing", "x", "nothing is not defined in the project"),
        ("load_rows", "load_rows", "called load_rows already"),
        ("load_rows", "class", "'class' cannot be a name in Python"),
        ("load_rows", "both", r"both is in use where load_rows is: app/store\.py:11"),
        ("load_rows", "load", r"load is in use where load_rows is: app/store\.py:1, app/store\.py:6"),
        ("twin", "other", r"several places.*\napp/store2\.py:1.*\napp/store3\.py:1"),
        ("outer.inner", "x", "local to outer"),
        ("Box.__len__", "x", "Python itself"),
    ],
)
def test_what_cannot_be_renamed_is_refused_and_nothing_changes(tmp_path, symbol, new_name, why):
    root = project(
        tmp_path,
        {
            "app/store.py": STORE,
            "app/store2.py": "def twin(): pass\ndef outer():\n  def inner(): pass\nclass Box:\n  def __len__(self): ...\n",
            "app/store3.py": "def twin(): pass\n",
        },
    )
    with pytest.raises(ToolError, match=f"(?s){why}"):
        rename(root, symbol, new_name)
    assert (root / "app/store.py").read_text() == textwrap.dedent(STORE)


def test_one_of_several_definitions_is_named_by_its_file(tmp_path):
    root = project(
        tmp_path,
        {
            "a.py": "def twin(): pass\ntwin()\n",
            "b.py": "def twin(): pass\ntwin()\n",
            "use.py": "import a, b\na.twin()\nb.twin()\n",
        },
    )
    rename(root, "twin", "single", path="a.py")
    assert (root / "b.py").read_text().split("\n") == ["def twin(): pass", "twin()", ""]
    assert (root / "use.py").read_text() == "import a, b\na.single()\nb.twin()\n"


def test_other_languages_go_by_a_name_that_is_defined_once(tmp_path):
    root = project(
        tmp_path,
        {
            "web/draw.ts": "export const draw = (n: number) => n;\n",
            "web/view.ts": "import { draw } from './draw';\n// draw\nexport const v = draw(1) + pen.draw(2);\n",
            "draw.py": "draw = 1\n",
        },
    )
    with pytest.raises(ToolError, match=r"web/view\.ts:3"):
        rename(root, "draw", "paint", path="web")
    rename(root, "draw", "paint", path="web", also=[])
    assert (root / "web/view.ts").read_text().split("\n")[1:] == [
        "// draw",
        "export const v = paint(1) + pen.draw(2);",
        "",
    ]
    assert (root / "draw.py").read_text() == "draw = 1\n"


def test_line_ends_and_byte_order_marks_stay(tmp_path):
    (tmp_path / "a.py").write_bytes(b"\xef\xbb\xbfdef f(): pass\r\nf()\r\n")
    build_index(tmp_path)
    rename(tmp_path, "f", "g")
    assert (tmp_path / "a.py").read_bytes() == b"\xef\xbb\xbfdef g(): pass\r\ng()\r\n"


def test_notebooks_are_named_and_left(tmp_path):
    cell = {"cell_type": "code", "id": "c", "metadata": {}, "outputs": [], "execution_count": None}
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{**cell, "source": "from a import f\nf()"}]}
    (tmp_path / "n.ipynb").write_text(json.dumps(book))
    project(tmp_path, {"a.py": "def f(): pass\n"})
    assert "uses it, too" in rename(tmp_path, "f", "g")
    assert json.loads((tmp_path / "n.ipynb").read_text()) == book


def test_the_policy_judges_each_file_that_would_change(tmp_path):
    root = project(tmp_path, {"a.py": "def f(): pass\n", "secret.py": "from a import f\nf()\n"})
    tool = tool_in(root)
    given = {"symbol": "f", "new_name": "g"}

    async def decided(*deny: str) -> str:
        assert tool.prepare is not None
        assert tool.facts is not None
        await tool.prepare(given)
        policy = PermissionPolicy(roots=(root,), cwd=root, mode="acceptEdits", deny=deny)
        return policy.decide(tool, {**given, **tool.facts(given)}).behavior

    assert asyncio.run(decided()) == "allow"
    assert asyncio.run(decided("Edit(/secret.py)")) == "deny"


def test_files_that_changed_after_the_question_are_not_written(tmp_path):
    root = project(tmp_path, {"a.py": "def f(): pass\n"})
    tool = tool_in(root)
    given = {"symbol": "f", "new_name": "g"}

    async def changed_between() -> None:
        assert tool.prepare is not None
        await tool.prepare(given)
        (root / "a.py").write_text("def f(): pass\nf()\n")
        await tool.call(dict(given), CONTEXT)

    with pytest.raises(ToolError, match="changed after it was asked"):
        asyncio.run(changed_between())
    assert (root / "a.py").read_text() == "def f(): pass\nf()\n"
