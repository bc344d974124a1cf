"""Libraries in a branch after they were used in the kernel: what works there, and what is said where one does not."""

from __future__ import annotations

import importlib.util

import pytest
from msgspec import Struct
from notebook_kernel import NotebookKernel

pytestmark = pytest.mark.kernel


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
