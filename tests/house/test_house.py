"""What holds for the whole house: what is public, what imports cost, what names say, that documents are true."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cellwright

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "cellwright").rglob("*.py"))


def python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_the_public_names_are_these():
    assert cellwright.__all__ == [
        "Agent",
        "Allow",
        "Catalog",
        "CellwrightError",
        "ContextUsage",
        "Decision",
        "Deny",
        "ErrorCode",
        "HookMatcher",
        "MapResult",
        "MapRow",
        "PermissionPolicy",
        "Result",
        "Rewound",
        "RunError",
        "Session",
        "Tool",
        "ToolAccess",
        "ToolContext",
        "ToolError",
        "ToolInput",
        "ToolLimits",
        "ToolOutput",
        "ToolPermissionContext",
        "ToolResult",
        "ToolUse",
        "__version__",
        "ask",
        "builtin_tools",
        "connect",
        "interrupt",
        "stability",
        "stream",
        "tool",
    ]
    for name in cellwright.__all__:
        assert getattr(cellwright, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = cellwright.nonsense


def test_importing_it_imports_nothing_heavy():
    heavy = ["anthropic", "httpx2", "mcp", "IPython", "nbformat", "ipywidgets", "pydantic", "jsonschema", "rich"]
    loaded = python(f"import cellwright, sys; print([name for name in {heavy} if name in sys.modules])")
    assert loaded == "[]"


def test_asking_needs_no_sdk():
    assert (
        python("import cellwright, sys; cellwright.ask; cellwright.connect; print('anthropic' in sys.modules)")
        == "False"
    )


NEEDS_POSIX = """
import os
from fcntl import flock
"""


def test_no_import_needs_what_only_posix_has(tmp_path):
    wrong = tmp_path / "cellwright" / "wrong.py"
    wrong.parent.mkdir()
    wrong.write_text(NEEDS_POSIX, "utf-8")
    program = str(ROOT / "tests" / "shared" / "processes" / "windows" / "as_on_windows.py")
    run = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.stdout, run.returncode) == ("", 0), run.stderr
    # and it finds one that does
    found = subprocess.run(
        [sys.executable, program, "wrong"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(wrong.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == "wrong (wrong.py:3): ModuleNotFoundError: No module named 'fcntl'\n", found.stderr


def test_names_say_what_things_are():
    vague = re.compile(r"(Manager|Service|Helper|Handler|Utils?|Processor)$")
    found = [path.stem for path in SOURCES if path.stem in ("utils", "helpers", "common", "misc")]
    for path in SOURCES:
        classes = re.findall(r"^\s*class (\w+)", path.read_text("utf-8"), re.MULTILINE)
        found += [f"{path.relative_to(ROOT)}: {name}" for name in classes if vague.search(name)]
    assert found == []


def test_the_repository_speaks_of_the_product_alone():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    if not any(tracked):
        pytest.skip("not a git checkout")
    machine = re.compile(
        "|".join([r"/" + "work/", "registry" + r"\.npm", "files" + r"\.pythonhosted", "/" + "tmp/team"])
    )
    found = []
    for name in filter(None, tracked):
        path = ROOT / name
        if path.suffix in (".png", ".gz") or not path.is_file():
            continue
        if machine.search(path.read_text("utf-8", "replace")):
            found.append(name)
    assert found == []


def test_every_option_named_in_the_readme_exists():
    from cellwright.kernel.magic.options import OPTIONS
    from cellwright.terminal.arguments import parser

    known = {option for action in parser()._actions for option in action.option_strings} | {
        f"--{name}" for name in OPTIONS
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / "README.md").read_text("utf-8")))
    assert named - known - {"--lab"} == set()


def test_python_in_the_readme_compiles():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_version_is_said_once():
    package = json.loads((ROOT / "labextension" / "package.json").read_text("utf-8"))
    pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
    assert package["version"] == cellwright.__version__
    assert f'version = "{cellwright.__version__}"' in pyproject


def test_the_kernels_extension_waits_for_nothing_that_only_a_prompt_needs():
    later = ("cellwright.events", "cellwright.agent.tool", "cellwright.terminal.arguments", "msgspec")
    code = f"import cellwright.kernel.extension, sys; print([name for name in {later} if name in sys.modules])"
    assert python(code) == "[]"


def test_patterns_of_modules_are_compiled_when_they_are_used():
    # those of a first prompt were 270, and took a sixth of its time; what runs or is read alone imports nothing of ours
    alone = ("testing", "fresh_kernel_main.py", "unittest_reporter.py", "sample_project")
    found = []
    for path in SOURCES:
        if not {*path.parts}.isdisjoint(alone):
            continue
        source = path.read_text("utf-8")
        if "re.compile" not in source:
            continue  # to parse a thousand modules takes seconds
        for node in at_import(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == [], "use cellwright.text.lazy_pattern"


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What of a module's tree runs when it is imported."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield each
            yield from at_import(each)


def test_docstrings_begin_with_a_noun_or_an_imperative():
    begins = re.compile(r'"""(What|Whether|How|Why|Where|Who|Which|May|That|Is)\b')
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if begins.search(line.lstrip()) and line.lstrip().startswith('"""')
    ]
    assert wrong == []
