"""What was spent today is known to every process of the user, and tomorrow is another day."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.agent.spending.spending_file import day_spending


def test_processes_add_up_and_days_do_not(tmp_path: Path) -> None:
    day = "2026-11-22"
    one, other = (day_spending(tmp_path / "spent", lambda: day) for _ in range(2))
    one.add(0.25)
    other.add(0.5)
    assert one.usd() == other.usd() == pytest.approx(0.75)
    day = "2026-11-24"
    assert one.usd() == 0
    one.add(0.1)
    assert sorted(file.name for file in (tmp_path / "spent").iterdir()) == ["2026-11-24", "2026-11-24.lock"]


def test_where_nothing_can_be_written_the_process_knows_its_own(tmp_path: Path) -> None:
    (tmp_path / "spent").write_text("a file")
    spending = day_spending(tmp_path / "spent", lambda: "2026-11-22")
    spending.add(0.25)
    spending.add(0.25)
    assert spending.usd() == 0.5


def test_a_broken_line_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "2026-11-22").write_text("0.5\nnan\n-3\n0.2\xff\n0.25")
    assert day_spending(tmp_path, lambda: "2026-11-22").usd() == 0.75
