"""Each reset of a forked process is proven by leaving it out: then happens what it is there against."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Struct
from notebook_kernel import NotebookKernel

from cellwright.kernel.branches.forked.resets import RESETS

pytestmark = pytest.mark.kernel

PREPARED = """
import asyncio, concurrent.futures, logging, mmap, os, socket, sys, threading, time
import IPython.core.async_helpers as helpers
kept = open("kept.txt", "w+"); kept.write("0123456789"); kept.flush(); kept.seek(0)
ours, theirs = socket.socketpair(); theirs.setblocking(False)
mapped_file = open("mapped.bin", "w+b"); mapped_file.write(bytes(4096)); mapped_file.flush()
mapped = mmap.mmap(mapped_file.fileno(), 4096)
shared = mmap.mmap(-1, 4096)
pool = concurrent.futures.ThreadPoolExecutor(2); pool.submit(int).result()
token = os.environ["BRANCH_TEST_TOKEN"]
if helpers._asyncio_event_loop is None:  # as top-level await leaves it in a terminal
    helpers._asyncio_event_loop = asyncio.new_event_loop()
old_out = sys.stdout

# a thread stands in the middle of a write, with the file's lock
full_end, write_end = os.pipe()
log_file = open(write_end, "w")
handler = logging.StreamHandler(log_file); logging.getLogger("stuck").addHandler(handler)
writing = threading.Thread(target=log_file.buffer.write, args=(bytes(1 << 20),), daemon=True)
writing.start()
import select
while select.select([], [write_end], [], 0)[1]: time.sleep(0.01)  # until it waits for somebody to read
"""


class Proof(Struct, frozen=True):
    """A reset, code for a branch (or `look`, a cell beside it), and what that gives with the reset and without it."""

    reset: str
    code: str = "None"
    look: str = ""
    good: str = ""
    bad: str = ""


PROOFS = [
    Proof(
        "group",
        look="os.getpgid(pid) == pid, open(f'/proc/{pid}/oom_score_adj').read()",
        good="True 1000\n",
        bad="False 0\n",
    ),
    Proof("descriptors", "os.write(kept.fileno(), b'X')", "kept.seek(0), kept.read(1)", "0 0\n", "0 X\n"),
    Proof("descriptors", "ours.send(b'!')", "theirs.recv(1) if heard(theirs) else b''", "b''", "b'!'"),
    Proof("descriptors", "kept.seek(5)", "os.lseek(kept.fileno(), 0, 1)", "0", "5"),
    Proof("maps", "mapped[0] = 7", "mapped[0]", "0", "7"),
    Proof("maps", "shared[0] = 7", "shared[0]", "0", "7"),
    Proof("loop", "await asyncio.sleep(0.01); 'slept'", good="'slept'", bad="Bad file descriptor"),
    Proof("streams", "print('seen'); print('by the old one', file=old_out)", good="seen\nby the old one\n", bad=""),
    Proof("files", "logging.getLogger('stuck').warning('x'); 'logged'", good="'logged'", bad="hangs in a lock"),
    Proof("shell", "1 + 1", good="2\n", bad=""),
    Proof("libraries", "pool.submit(lambda: 'from the pool').result()", good="'from the pool'", bad="hangs in a lock"),
    Proof("environment", look="await asked('variable', 'BRANCH_TEST_TOKEN', of) is None", good="True", bad="False"),
    Proof("secrets", "token", good="'********************'", bad="'tok-0123456789abcdef'"),
]


@pytest.fixture
def kernel(branching: NotebookKernel, project: Path) -> NotebookKernel:
    cell = branching.run(
        PREPARED + "def heard(end):\n    import select\n    return select.select([end], [], [], 0)[0]\n"
    )
    assert cell.status == "ok", cell.error
    return branching


def test_each_reset_is_there_for_something(kernel: NotebookKernel) -> None:
    wrong = {}
    for proof in PROOFS:
        for without in ("", proof.reset):
            found = seen(kernel, proof, without)
            expected = proof.bad if without else proof.good
            if expected not in found or (not expected and found.strip()):
                wrong[proof.reset, proof.code or proof.look, without] = found
    assert wrong == {}
    assert {proof.reset for proof in PROOFS} == {reset.name for reset in RESETS}


def seen(kernel: NotebookKernel, proof: Proof, without: str) -> str:
    """What a branch's code gave, and what the kernel sees then."""
    look = f"print({proof.look})" if proof.look else "print(told, end='')"
    cell = kernel.run(
        f"of = made({without!r})\nassert await taken(of) == 'taken'\npid = of._snapshot.pid\n"
        f"told = await said({proof.code!r}, of=of)\n{look}\nawait wait(of.close())\n"
        "kept.seek(0); kept.write('0123456789'); kept.flush(); kept.seek(0); mapped[0] = shared[0] = 0; None"
    )
    return cell.stdout if cell.status == "ok" else cell.error
