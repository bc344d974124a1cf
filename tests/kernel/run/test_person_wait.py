"""Waits on a person that hold the main thread: what ends them, and that the kernel has no other one."""

from __future__ import annotations

import ast
import itertools
import threading
from pathlib import Path

import pytest

import cellwright.kernel
from cellwright.kernel.run.interrupts import interrupt_main_thread
from cellwright.kernel.run.person_wait import wait_for_person

DOORS = {"magic/sign_in.py": "wait_for_person", "run/questions.py": "entered"}
"""The modules that may call `input` or `getpass`, each with the door through which it does."""


def never() -> bool:
    return False


def held() -> str:
    threading.Event().wait(60)
    return "nobody ended the wait"


def test_what_is_typed_ends_the_wait() -> None:
    assert wait_for_person(lambda: "typed", never) == "typed"


def test_an_interrupt_ends_the_wait() -> None:
    def interrupted() -> str:
        interrupt_main_thread()
        return held()

    with pytest.raises(KeyboardInterrupt):
        wait_for_person(interrupted, never)


def test_what_happens_elsewhere_ends_the_wait_also_after_a_look_that_failed() -> None:
    looks = itertools.count()

    def is_over() -> bool:
        if next(looks) == 0:
            raise OSError
        return True

    assert wait_for_person(held, is_over) is None


def test_no_module_of_the_kernel_waits_for_a_person_by_another_door() -> None:
    folder = Path(cellwright.kernel.__file__).parent
    found = {}
    for file in folder.rglob("*.py"):
        source = file.read_text("utf-8")
        if "input" not in source and "getpass" not in source:
            continue
        tree = ast.parse(source)
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        if called & {"input", "getpass.getpass", "getpass"}:
            found[file.relative_to(folder).as_posix()] = {name.rpartition(".")[2] for name in called}
    assert found.keys() == DOORS.keys()
    for module, door in DOORS.items():
        assert door in found[module]
