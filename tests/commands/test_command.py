"""Pages of commands as a terminal and a notebook show them."""

from cellwright.commands.command import CommandPage, Section

PAGE = CommandPage(
    [
        Section(
            "Servers",
            [("name", "tokens", "what"), ("tides", "1,200", "reads every gauge of the coast"), ("x", "9", "")],
        )
    ]
)


def test_lines_wrap_between_words_below_their_column_and_amounts_end_together() -> None:
    assert PAGE.plain(42).splitlines() == [
        "Servers",
        "  tides  1,200  reads every gauge of the",
        "                coast",
        "  x          9",
    ]
    assert "of the coast" in PAGE.plain()


def test_columns_say_on_which_side_they_stand() -> None:
    assert "| :-- | --: | :-- |" in PAGE.markdown()
    assert "\\[" not in CommandPage([Section("[a]", text="no [Errno 2] here")]).markdown()
