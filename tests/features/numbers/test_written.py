"""Numbers that are read in prose."""

import pytest

from cellwright.features.numbers.written import written_numbers


def read(text: str) -> list[tuple[str, float, float, int]]:
    return [(n.text, n.value, n.resolution, n.digits) for n in written_numbers(text) if not n.quiet]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234.50", [("1,234.50", 1234.5, 0.01, 6)]),
        ("12,000 rows", [("12,000", 12000, 1, 2)]),
        ("1.234,5 Euro", [("1.234,5", 1234.5, 0.1, 5)]),
        ("0,45", [("0,45", 0.45, 0.01, 2)]),
        ("$3 and $41", [("$3", 3, 1, 1), ("$41", 41, 1, 2)]),
        ("€1.5bn", [("€1.5bn", 1.5e9, 1e8, 2)]),
        ("2.998 x 10^8", [("2.998 x 10^8", 2.998e8, 1e5, 4)]),
        ("6.02 × 10²³", [("6.02 × 10²³", 6.02e23, 1e21, 3)]),
        ("5‰", [("5‰", 0.5, 0.1, 1)]),
        ("25 basis points", [("25 basis points", 0.25, 0.01, 2)]),
        ("20–30 %", [("20", 20, 1, 1), ("30 %", 30, 1, 1)]),
        ("3 to 4 million", [("3", 3e6, 1e6, 1), ("4 million", 4e6, 1e6, 1)]),
        ("17, 24 and 36", [("17", 17, 1, 2), ("24", 24, 1, 2), ("36", 36, 1, 2)]),
    ],
)
def test_forms(text: str, expected: list[tuple[str, float, float, int]]) -> None:
    found = read(text)
    assert [(t, pytest.approx(v), pytest.approx(r), d) for t, v, r, d in expected] == found


@pytest.mark.parametrize(
    "text",
    [
        "`x = 317`",
        "```\n317\n```",
        "~~~python\n317",
        "https://example.org/317?x=512",
        "[text](page317.html)",
        '<img width="317">',
        "<!-- 317\n512 -->",
        "data_317.csv and src/run-512.py",
        "$x_{317}$ and \\(512\\)",
        "v2.13 of 2.13.4",
        "Python 3.13, CUDA-12.4",
        "on 17 March 2024 at 14:30, 2024-03-17T14:30:15",
        "the 1990s, Q3 2024, FY2023",
        "Figures 13 and 14, [317], #512",
        "the 21st of 30 minutes past 317th"[:8],
        "ResNet50, GPT-4, B2, x317y",
        "call +49 30 1234567 or (555) 555-1234",
        "a 99 % CI, p < 0.001, alpha = 0.05, 80/20, 100 %",
        "7 rows of 12",
    ],
)
def test_no_claims(text: str) -> None:
    assert read(text) == []


def test_places_are_those_of_the_text() -> None:
    text = "`12` says\n\n1. It is 41.7 %, or **3,117** of 7,475."
    for number in written_numbers(text):
        assert text[number.start : number.end] == number.text


def test_attributes_of_tags_over_lines_and_numbers_of_bold_headings_are_no_claims() -> None:
    tag = '<img src="https://a.b/c.jpg?w=990"\n   width=693 height=420>'
    text = f"{tag}\n\n### **3.2**. Predictions\n\nThe price is 693 when a <b and c> 420."
    found = [(number.text, number.why) for number in written_numbers(text)]
    assert found == [("3.2", "heading number"), ("693", ""), ("420", "")]
