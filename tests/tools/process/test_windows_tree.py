"""Ending children as on Windows, with a real process of this system."""

from __future__ import annotations

import subprocess
import sys

from cellwright.tools.process.windows_tree import CTRL_BREAK_EVENT, ask_tree, end_tree


def test_a_tree_is_ended_by_windows_own_program() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ran: list[list[str]] = []

    def taskkill(command: list[str], **_options: object) -> None:
        assert process.poll() is None, "its children are found through it"
        ran.append(command)

    end_tree(process, run=taskkill, environ={"SYSTEMROOT": r"D:\Windows"})
    assert ran == [[r"D:\Windows\System32\taskkill.exe", "/T", "/F", "/PID", str(process.pid)]]
    assert process.wait(60) != 0


def test_without_that_program_the_child_is_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def missing(_command: list[str], **_options: object) -> None:
        raise FileNotFoundError

    end_tree(process, run=missing, environ={})
    assert process.wait(60) != 0


def test_a_child_is_asked_as_a_terminal_asks() -> None:
    class Child(subprocess.Popen[bytes]):
        def __init__(self) -> None:
            self.heard: list[int] = []

        def __del__(self, _warn: object = None) -> None:
            pass

        def send_signal(self, sig: int) -> None:
            self.heard.append(sig)
            raise OSError("no console")

    child = Child()
    ask_tree(child)
    assert child.heard == [CTRL_BREAK_EVENT]
