"""What only the kernel has is found by its name, without running a line of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

from cellwright.kernel.namespace.namespace import has_name, live_definitions

CELL = """
class Meta(type):
    def __getattribute__(cls, name):
        raise SystemExit("looked at")

class Store(metaclass=Meta):
    @staticmethod
    def load(path, *, again): ...

def clean(frame, by=[1]):
    return frame

number = 3
"""


def test_functions_and_classes_of_cells_are_found_and_those_of_files_left_to_the_index(tmp_path: Path) -> None:
    shell = InteractiveShell()
    shell.run_cell(CELL).raise_error()
    (tmp_path / "helper.py").write_text("def helped(): ...\n")
    spec = importlib.util.spec_from_file_location("helper", tmp_path / "helper.py")
    assert spec is not None
    assert spec.loader is not None
    helper = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(helper)
    shell.user_ns["helped"] = helper.helped
    definition = live_definitions(shell, tmp_path)
    assert definition("clean").endswith(": function clean | def clean(frame, by)")
    assert definition("clean").startswith("in the kernel (")
    assert definition("Store").endswith(": class Store")
    assert definition("Store.load").endswith(": function Store.load | def load(path, again)")
    for name in ("number", "helped", "nothing", "Store.save", "number.real", "In", "exit"):
        assert definition(name) == "", name
    assert live_definitions(shell, tmp_path / "elsewhere")("helped").endswith("function helped | def helped()")


def test_variables_and_columns_of_tables_are_names_that_the_user_has() -> None:
    shell = InteractiveShell()
    shell.run_cell(
        "import pandas\nvisits = pandas.DataFrame({'wait min': [2.4]}, index=pandas.Index(['a'], name='harbour'))\n"
        "rates = {'churn': 0.2}"
    ).raise_error()
    has = has_name(shell)
    assert [name for name in ("visits", "wait min", "harbour", "churn", "wage") if has(name)] == [
        "visits",
        "wait min",
        "harbour",
        "churn",
    ]
