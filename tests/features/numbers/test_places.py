"""Places of numbers in texts that change: the number is found again by what its line says, or it is said that it is not."""

from cellwright.features.numbers.places import find_place, lines_of, nearest_rank, still_says, value_at

FRAME = "       age    income\nmean  41.37  52814.2\nmax   79.00   211400\n"


def test_a_number_is_found_again_though_columns_moved_and_lines_were_added() -> None:
    was = lines_of(FRAME)
    now = lines_of("note: 12 rows\n          age   income\nmean    43.1   1,204\nmax   100.00   211400\n")
    assert value_at(find_place(was, 1, 1), now) == 1204.0
    assert value_at(find_place(was, 2, 0), now) == 100.0


def test_what_cannot_be_told_apart_is_not_guessed() -> None:
    was = lines_of("1 2\n3 4\n5 6")
    place = find_place(was, 1, 0)
    assert value_at(place, lines_of("1 2\n9 4\n5 6")) == 9.0  # as many lines that say the same
    assert value_at(place, lines_of("1 2\n9 4")) is None
    assert value_at(place, lines_of("done")) is None
    assert value_at(find_place(lines_of("a 1 2"), 0, 1), lines_of("a 1")) is None


def test_a_line_read_with_its_number_is_the_file_s_line() -> None:
    place = find_place(lines_of("    12→total,480"), 0, 0)
    assert value_at(place, lines_of("total,500")) == 500.0


def test_a_stated_number_holds_for_what_it_would_have_been_rounded_from() -> None:
    cases = [
        (2.4, 0.1, 2.41, 2.38, True),
        (2.4, 0.1, 2.41, 2.6, False),
        (14.8, 0.1, 0.148, 0.1525, False),
        (40_000, 1, 40_112, 40_090, True),
        (40_000, 1, 40_112, 43_000, False),
        (4_100_000, 100_000, 4.098, 4.11, True),
        (2.0, 0.1, 120.0, 150.0, False),  # minutes of seconds
        (12, 1, 12.0, 0.0, False),
    ]
    assert [still_says(*case[:4]) for case in cases] == [case[4] for case in cases]


def test_the_likeliest_number_of_a_line() -> None:
    assert nearest_rank("churn 0.26536 of 7043", 26.5) == 0
    assert nearest_rank("no numbers", 26.5) is None


def test_hostile_lines_are_bounded() -> None:
    lines_of("-" * 200_000 + "1," * 100_000 + "\n" * 50_000)
