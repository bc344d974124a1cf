"""A kernel whose Linux has no Landlock: the same tool, and each call asks."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel, Page, model_of, running_kernel

from cellwright.kernel.branches.kernel_branches import unsupported
from cellwright.testing import MessagesServer, say, use

_SECCOMP = {"x86_64": 317, "aarch64": 277}.get(platform.machine())

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        unsupported() is not None or _SECCOMP is None, reason="no branches, or no filter, on this system"
    ),
]

WITHOUT_LANDLOCK = f"""
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
# the number of a call; landlock_create_ruleset (444) is not implemented, everything else is allowed
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
rules = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
program = struct.pack("@HP", len(lines), ctypes.addressof(rules))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.syscall({_SECCOMP}, 1, 1, program) == 0, ctypes.get_errno()  # for all threads
del libc, lines, rules, program
"""


@pytest.fixture
def kernel(tmp_path: Path, model: MessagesServer) -> Iterator[NotebookKernel]:
    home = tmp_path / "home"
    home.mkdir()
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    with running_kernel(tmp_path, {**model_of(model), **places}) as kernel:
        cell = kernel.run(WITHOUT_LANDLOCK)
        assert cell.status == "ok", cell.error
        assert kernel.run("%load_ext cellwright").status == "ok"
        yield kernel


def test_without_landlock_a_branch_asks_and_says_why(
    kernel: NotebookKernel, page: Page, model: MessagesServer, tmp_path: Path
) -> None:
    kernel.run("value = 40")
    model.add(use("Branch", code="value += 2\nopen('made.txt', 'w').close()\nvalue"), say("Done."))
    cell = kernel.begin("%%claude\ngo")
    asked = page.wait_for_op("ask", cell)
    assert asked["name"] == "Branch"
    assert "cannot be confined: this Linux has no Landlock" in str(asked)
    assert "confined copy" not in asked["title"]
    assert not (tmp_path / "made.txt").exists()
    page.answer(asked["question"], "allow")
    kernel.finish(cell)
    assert cell.status == "ok", cell.error
    assert "42" in str(model.requests[-1].body["messages"][-1])
    assert kernel.value("value") == "40"  # a copy all the same
    assert (tmp_path / "made.txt").exists()  # which is what was asked about
    assert "confined copy of your kernel" not in str([op for op in page.ops if op["op"] == "notice"])
    # an allow rule for Branch is one for confined branches
    model.add(use("Branch", code="1"), say("Done."))
    cell = kernel.begin("%%claude --allow Branch\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "deny")
    kernel.finish(cell)
