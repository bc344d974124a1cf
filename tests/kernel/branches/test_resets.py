"""Each reset of a forked process is proven by leaving it out: then happens what it is there against."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from msgspec import Struct
from notebook_kernel import NotebookKernel

from cellwright.kernel.branches.resets import RESETS

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


class Use(Struct, frozen=True):
    """What a cell does with a library, what a branch does with it then, and what comes back."""

    library: str
    cell: str
    branch: str
    shown: str


USES = [
    Use("numpy", "import numpy as np; m = np.ones((300, 300)); m @ m", "float((m @ m).sum())", "27000000.0\n"),
    Use(
        "pandas",
        "import pandas as pd; df = pd.DataFrame({'k': ['a', 'b', 'a'], 'v': [1, 2, 3]}); df.groupby('k').sum()",
        "df['w'] = df.v * 2; df.groupby('k').w.sum().to_dict()",
        "{'a': 8, 'b': 4}\n",
    ),
    Use(
        "pyarrow",
        "import pyarrow as pa, pyarrow.compute as pc; t = pa.table({'k': ['a', 'b', 'a'], 'v': [1, 2, 3]}); t.group_by('k')"
        ".aggregate([('v', 'sum')])",
        "t.group_by('k').aggregate([('v', 'sum')]).sort_by('k')['v_sum'].to_pylist()",
        "[4, 2]\n",
    ),
    Use(
        "pyarrow",
        "import pyarrow.csv as pcsv; open('a.csv', 'w').write('x\\n1\\n2\\n'); pcsv.read_csv('a.csv')",
        "pcsv.read_csv('a.csv')['x'].to_pylist()",
        "[1, 2]\n",
    ),
    Use(
        "duckdb",
        "import duckdb; db = duckdb.connect(); db.execute('create table t as select range v from range(100000)')",
        "db.execute('select sum(v) from t').fetchall()",
        "[(4999950000,)]\n",
    ),
    Use(
        "sqlite3",
        "import sqlite3; sq = sqlite3.connect('a.db', check_same_thread=False); sq.execute('create table t (v)')\n"
        "sq.execute('insert into t values (7)'); sq.commit()",
        "sq.execute('select v from t').fetchall()",
        "[(7,)]\n",
    ),
    Use(
        "sqlite3",
        "own = sqlite3.connect('a.db')",
        "own.execute('select 1')",
        "ProgrammingError: SQLite objects created in",
    ),
    Use(
        "matplotlib",
        "%matplotlib inline\nimport matplotlib.pyplot as plt; plt.plot([1, 2]); plt.close()",
        "plt.plot([1, 2]); None",
        "<Figure size 640x480 with 1 Axes>\n",
    ),
    Use(
        "sklearn",
        "from sklearn.ensemble import HistGradientBoostingRegressor as H, RandomForestRegressor as R\n"
        "from sklearn.cluster import KMeans\nX = np.random.rand(2000, 5); H(max_iter=5).fit(X, X[:, 0])\n"
        "KMeans(3, n_init=1).fit(X); R(5, n_jobs=2).fit(X, X[:, 0]); None",
        "H(max_iter=5).fit(X, X[:, 0]); KMeans(3, n_init=1).fit(X); R(5, n_jobs=2).fit(X, X[:, 0]); 'fitted'",
        "'fitted'\n",
    ),
    Use(
        "joblib",
        "from joblib import Parallel, delayed; Parallel(2)(delayed(abs)(-i) for i in range(4))",
        "Parallel(2)(delayed(abs)(-i) for i in range(4))",
        "[0, 1, 2, 3]\n",
    ),
    Use(
        "torch",
        "import torch; w = torch.ones(1000, 1000); net = torch.nn.Linear(100, 1); (w @ w).sum()",
        "(w @ w)[0, 0].item()",
        "1000.0\n",
    ),
    Use(
        "torch",
        "x = torch.rand(5000, 100); opt = torch.optim.SGD(net.parameters(), 0.01)",
        "for _ in range(3):\n    opt.zero_grad(); loss = ((net(x) - 1) ** 2).mean(); loss.backward(); opt.step()\n"
        "loss.item() > 0",
        "True\n",
    ),
    Use(
        "polars",
        "import polars as pl; pf = pl.DataFrame({'k': ['a', 'b'] * 50_000, 'v': range(100_000)})\n"
        "pf.group_by('k').agg(pl.sum('v'))",
        "pf['v'].sum(), len(pf.to_dicts())",
        "(4999950000, 100000)\n",
    ),
    Use("polars", "None", "pf.group_by('k').agg(pl.sum('v')).sort('k')", "This branch hangs in a lock"),
    Use(
        "polars",
        "import pandas as pd",
        "pd.DataFrame({c: pf[c].to_pandas() for c in pf.columns}).groupby('k').v.sum().to_dict()",
        "{'a': 2499950000, 'b': 2500000000}\n",
    ),
]


@pytest.mark.parametrize("library", list(dict.fromkeys(use.library for use in USES)))
def test_a_library_works_in_a_branch_or_it_is_said(branching: NotebookKernel, library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    wrong = {}
    for use in USES:
        if use.library != library:
            continue
        prepared = branching.run(f"import numpy as np\n{use.cell}" if library == "sklearn" else use.cell)
        assert prepared.status == "ok", prepared.error
        assert branching.run("assert await taken() == 'taken'").status == "ok"
        found = branching.run(f"print(await said({use.branch!r}), end='')").stdout
        if use.shown not in found:
            wrong[use.branch] = found
    assert wrong == {}
