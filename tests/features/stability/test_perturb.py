"""Resamples: which rows they have, what stays in step, what keeps its order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cellwright.features.stability.perturb import HOOK, MARK, begin, describe


def perturbed(kind: str, seed: int = 1, **more: Any) -> dict[str, Any]:
    rows = 40
    namespace: dict[str, Any] = {
        "df": pd.DataFrame({"row": range(rows), "label": [0, 1] * (rows // 2), "town": [n // 4 for n in range(rows)]}),
        "x": np.arange(rows),
        "y": pd.Series([0, 1] * (rows // 2)),
        "other": np.arange(7),
    }
    spec = {
        "kind": kind,
        "frame": "df",
        "label": "label",
        "by": "",
        "also": ["x", "y"],
        "seed": seed,
        "part": 0,
        **more,
    }
    begin(namespace, spec)
    return namespace


def test_a_bootstrap_draws_rows_and_what_is_of_equal_length_goes_with_them() -> None:
    found = perturbed("bootstrap")
    rows = found["df"]["row"].tolist()
    assert len(rows) == 40
    assert len(set(rows)) < 40
    assert found["x"].tolist() == rows
    assert found["df"]["label"].tolist() == [row % 2 for row in rows] == found["y"].tolist()
    assert found["df"].index.tolist() == list(range(40))
    assert found["other"].tolist() == list(range(7))


def test_the_same_seed_draws_the_same_rows_and_another_one_others() -> None:
    first, again, other = (perturbed("bootstrap", seed)["x"].tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_the_tenths_leave_out_each_row_once() -> None:
    left_out = [set(range(40)) - set(perturbed("leave_out", part=part)["x"].tolist()) for part in range(10)]
    assert [len(rows) for rows in left_out] == [4] * 10
    assert set.union(*left_out) == set(range(40))


def test_a_permuted_label_leaves_the_other_columns_alone_and_the_frame_of_others_too() -> None:
    frame = pd.DataFrame({"a": range(30), "b": range(30)})
    alias = frame
    namespace = {"df": frame}
    begin(namespace, {"kind": "permuted", "frame": "df", "label": "b", "by": "", "also": [], "seed": 1, "part": 0})
    assert namespace["df"]["a"].tolist() == list(range(30))
    assert sorted(namespace["df"]["b"]) == list(range(30))
    assert namespace["df"]["b"].tolist() != list(range(30)) == alias["b"].tolist()


def test_a_label_that_is_a_variable_is_permuted_alone() -> None:
    found = perturbed("permuted", label="y", frame="x", also=["df"])
    assert found["x"].tolist() == list(range(40)) == found["df"]["row"].tolist()
    assert found["y"].tolist() != [0, 1] * 20
    assert found["y"].sum() == 20


def test_groups_stay_together() -> None:
    towns = perturbed("bootstrap", by="town")["df"]["town"].value_counts()
    assert all(count % 4 == 0 for count in towns)
    kept = perturbed("leave_out", by="town")["df"]["town"].value_counts()
    assert kept.tolist() == [4] * 9


def test_a_series_in_time_keeps_its_times_and_neighbours() -> None:
    times = pd.date_range("2024-01-01", periods=64, freq="D")
    namespace = {"df": pd.DataFrame({"v": range(64)}, index=times)}
    begin(namespace, {"kind": "bootstrap", "frame": "df", "label": "", "by": "", "also": [], "seed": 1, "part": 0})
    assert namespace["df"].index.equals(times)
    steps = namespace["df"]["v"].diff().dropna()
    assert (steps.isin([1, -63])).mean() > 0.7


def test_other_kinds_seed_alone_and_the_hook_perturbs_what_is_made_later() -> None:
    namespace: dict[str, Any] = {}
    begin(namespace, {"kind": "bootstrap", "frame": "df", "label": "", "by": "", "also": [], "seed": 1, "part": 0})
    namespace["df"] = pd.DataFrame({"v": range(50)})
    namespace[HOOK]()
    assert len(set(namespace["df"]["v"])) < 50
    assert perturbed("seed")["x"].tolist() == perturbed("none")["x"].tolist() == list(range(40))


def test_polars_frames_are_taken_column_by_column() -> None:
    polars = pytest.importorskip("polars")
    namespace = {"df": polars.DataFrame({"a": list(range(30)), "b": [str(n) for n in range(30)]})}
    begin(namespace, {"kind": "bootstrap", "frame": "df", "label": "", "by": "", "also": [], "seed": 1, "part": 0})
    assert namespace["df"]["b"].to_list() == [str(n) for n in namespace["df"]["a"].to_list()]
    begin(namespace, {"kind": "permuted", "frame": "df", "label": "b", "by": "", "also": [], "seed": 1, "part": 0})
    assert namespace["df"]["b"].to_list() != [str(n) for n in namespace["df"]["a"].to_list()]


def test_frames_are_described_and_other_values_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    describe({"df": pd.DataFrame({"a": [1, 2], 3: [1, 2]}), "n": 5, "x": np.zeros((4, 2))}, ["df", "n", "x", "none"])
    line = capsys.readouterr().out.strip()
    assert json.loads(line.removeprefix(MARK)) == [
        {"name": "df", "rows": 2, "columns": ["a"], "times": False},
        {"name": "x", "rows": 4, "columns": [], "times": False},
    ]
