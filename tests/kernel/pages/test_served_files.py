"""Where a page's paths start from, also where the page does not know it."""

import pytest

from cellwright.kernel.pages.pages import relative_path, served_folder


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A server's folder with a notebook in it, whose kernel runs beside the notebook."""
    folder = tmp_path / "course" / "week 1"
    folder.mkdir(parents=True)
    (folder / "tides.ipynb").write_text("{}")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    return tmp_path


def test_what_the_page_says_counts(served, monkeypatch):
    monkeypatch.setenv("HOME", str(served))
    assert served_folder("/srv/notebooks", ["tides.ipynb"]).as_posix() == "/srv/notebooks"
    assert served_folder("~/course", []) == served / "course"


def test_the_notebook_that_the_kernel_was_started_for_says_it(served, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(served / "course/week 1/tides.ipynb"))
    found = served_folder("", ["other.ipynb", "course/week 1/tides.ipynb"])
    assert found == served
    # a part of a name is no path
    monkeypatch.setenv("JPY_SESSION_NAME", str(served / "course/week 1/no-tides.ipynb"))
    assert served_folder("", ["tides.ipynb"]) == served / "course" / "week 1"


@pytest.mark.parametrize("path", ["course/week 1/tides.ipynb", "RTC:course/week 1/tides.ipynb"])
def test_else_the_folder_above_the_kernel_in_which_it_is_found(served, path):
    assert served_folder("", ["unsaved.ipynb", path]) == served


def test_what_is_found_nowhere_starts_where_the_kernel_is(served):
    assert served_folder("", ["gone.ipynb", ""]) == served / "course" / "week 1"


def test_a_drive_is_no_folder():
    assert relative_path("RTC:a/b.ipynb") == "a/b.ipynb"
    assert relative_path("a/b:c.ipynb") == "a/b:c.ipynb"
