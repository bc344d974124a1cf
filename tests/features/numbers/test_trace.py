"""Verdicts on numbers: labelled examples, random numbers that must not trace, wrong ones that must be noticed."""

import json
import random
import re
import time
from pathlib import Path

import pytest

from cellwright.features.numbers.sources import Source, source
from cellwright.features.numbers.trace import Number, is_marked, trace
from cellwright.features.numbers.written import written_numbers

KINDS = {"output": "output", "code": "code", "text": "prompt"}
EXAMPLES = [json.loads(line) for line in (Path(__file__).parent / "examples.jsonl").read_text().splitlines()]


def sources_of(example: dict) -> list[Source]:
    return [
        source(KINDS[seen["kind"]], seen["source"], seen["text"]) for seen in example["seen"] if seen["kind"] in KINDS
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["id"])
def test_a_labelled_example(example: dict) -> None:
    found = {number.text: number.verdict for number in trace(example["prose"], sources_of(example))}
    for expected in example["expect"]:
        allowed = expected["verdict"] if isinstance(expected["verdict"], list) else [expected["verdict"]]
        assert found.get(expected["number"], "skipped") in allowed, (expected, found)


def analysis(seed: int) -> tuple[str, list[Source]]:
    """An analysis of invented data: what its calls printed, and an answer that states their numbers, rounded."""
    chance = random.Random(seed)
    groups = ["north", "south", "east", "west", "centre", "coast"]
    lines, answer = [f"{'group':>8} {'members':>10} {'income':>12} {'churn':>8}"], []
    for group in groups:
        members, income, churn = chance.randint(120, 98_000), chance.lognormvariate(10, 0.6), chance.random() * 0.6
        lines.append(f"{group:>8} {members:>10} {income:>12.4f} {churn:>8.5f}")
        answer += [
            f"The {group} has {members:,} members, with an income of {income:,.1f} each.",
            f"There {100 * churn:.1f} % left.",
        ]
    fit = [(name, chance.gauss(0, 2)) for name in ("age", "tenure", "price", "visits")]
    lines_of_fit = [f"{name:<10}{value: .6f}  {abs(value) / 7:.6f}" for name, value in fit]
    answer += [f"The coefficient of {name} is {value:.3f}." for name, value in fit]
    return " ".join(answer), [
        source("output", "Python, call 1", "\n".join(lines), turn=1),
        source("output", "Python, call 2", "\n".join(lines_of_fit), turn=1),
    ]


def with_random_numbers(answer: str, chance: random.Random) -> str:
    """Each number replaced by a random one that is written alike."""

    def other(match: re.Match[str]) -> str:
        digits = [char if char in ",.0" else str(chance.randint(0, 9)) for char in match[0]]
        return "".join([str(chance.randint(1, 9)) if match[0][0] != "0" else "0", *digits[1:]])

    return re.sub(r"\d[\d,.]*\d|\d", other, answer)


def test_true_answers_trace_and_random_numbers_do_not() -> None:
    true: list[Number] = []
    invented: list[Number] = []
    for seed in range(10):
        answer, seen = analysis(seed)
        true += trace(answer, seen)
        invented += trace(with_random_numbers(answer, random.Random(-seed)), seen)
    long = [number for number in true if number.digits >= 3]
    assert sum(number.verdict == "seen" for number in long) >= 0.97 * len(long)
    assert sum(number.verdict == "not_found" for number in true) <= 0.02 * len(true)
    traced = [number for number in invented if number.verdict in ("seen", "derived")]
    assert len(traced) <= 0.07 * len(invented), [(number.text, number.words) for number in traced]
    long = [number for number in invented if number.digits >= 3]
    assert sum(number.digits >= 3 for number in traced) <= 0.02 * len(long), [(n.text, n.words) for n in traced]


def test_one_wrong_digit_is_noticed() -> None:
    chance = random.Random(5)
    noticed = wrong = 0
    for seed in range(10):
        answer, seen = analysis(seed)
        for number in written_numbers(answer):
            places = [at for at in range(number.start, number.end) if answer[at].isdigit()]
            if number.digits < 3 or number.quiet:
                continue
            at = chance.choice(places)
            digit = chance.choice([other for other in "123456789" if other != answer[at]])
            changed = answer[:at] + digit + answer[at + 1 :]
            verdicts = trace(changed, seen)
            wrong += 1
            noticed += any(is_marked(other, verdicts) for other in verdicts if other.start == number.start)
    assert noticed >= 0.87 * wrong, (noticed, wrong)


def test_prose_about_a_method_is_not_marked() -> None:
    numbers = trace("We use 3,211 trees, a rate of 0.137 and 4.75 million rows.", [source("output", "P", "rows 17.25")])
    assert [number.verdict for number in numbers] == ["not_found"] * 3
    assert not any(is_marked(number, numbers) for number in numbers)


def test_a_dump_of_numbers_does_not_vouch_for_short_ones() -> None:
    chance = random.Random(2)
    dump = source("output", "Python, call 1", "\n".join(f"{chance.random() * 100:.2f}" for _ in range(20_000)), turn=1)
    numbers = trace("It is 47 for A, 12.5 for B, and 731,447 in all.", [dump])
    assert [number.verdict for number in numbers] == ["weak", "weak", "not_found"]


def test_the_place_is_the_row_that_the_sentence_names() -> None:
    table = "        mean   max\nage     41.2  79.0\ntenure  41.2  66.5"
    [number] = trace("The mean tenure is 41.2 years.", [source("output", "Python, call 1", table)])
    assert number.source is not None
    assert (number.source.line, number.source.text) == (3, "tenure 41.2 66.5")


HOSTILE = ["a-1", "1.", "1,", "1 000 ", "1/", "1", "<a ", "`", "``` ", "$ x", "](", "<!--", "0x0a", "jan 1 ", "\\("]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_little_time(piece: str) -> None:
    """About 0.1 s of the processor; patterns that read a text again and again take minutes."""
    for text in (piece * (60_000 // len(piece)), ((piece * (3_990 // len(piece))) + "\n") * 15):
        began = time.thread_time()
        seen = source("output", "Python, call 1", text)
        trace(text, [seen])
        assert time.thread_time() - began < 2


@pytest.mark.parametrize(
    ("piece", "typed"), [("12.5 % of 99.25 ", False), ('{"a":[1.25,', True), ("check 1 2.5\n", False)]
)
def test_a_megabyte_of_numbers_takes_little_time(piece: str, typed: bool) -> None:
    """About 0.7 s of the processor: what is beyond the bounds is not looked up."""
    text = piece * (1_000_000 // len(piece))
    began = time.thread_time()
    trace(text, [source("output", "Python, call 1", text)], typed=typed)
    assert time.thread_time() - began < 5
