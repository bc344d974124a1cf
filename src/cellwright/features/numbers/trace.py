"""The verdict on each number of an answer: seen, derived, too short to tell, or not found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from cellwright.events import Number, Verdict
from cellwright.features.numbers.match import (
    FEW_NUMBERS,
    Derivation,
    Match,
    ShortLines,
    Term,
    derive,
    look_up,
    short_lines,
)
from cellwright.features.numbers.sources import Source, place, words
from cellwright.features.numbers.written import MOST_NUMBERS, WrittenNumber, number_of, written_numbers
from cellwright.markdown.prose import prose_of
from cellwright.text import lazy_pattern

_TOKEN = lazy_pattern(
    r'"(?P<text>(?:[^"\\]|\\.)*)"|(?P<number>-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?)|(?P<sign>[{}\[\],:])'
)
_WORD_ENDS = lazy_pattern(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z]{1,80}")

MARKED_DIGITS = 3
"""A shorter number that was not found is not marked: too often it is right."""
PASSAGE_CHARS = 300
SENTENCE_CHARS = 160
MOST_CHECKED = 500
_SENTENCE_END = lazy_pattern(r"[.!?:;](?:\s|$)|\n")
_UNIT_WORD = lazy_pattern(r"\s?([A-Za-zµ]{1,12})")


def numbers_of_json(text: str) -> Iterator[tuple[WrittenNumber, str]]:
    """Yield the numbers of `text`, which is JSON, each with its path, at most MOST_NUMBERS.

    >>> [(number.text, path) for number, path in numbers_of_json('{"towns": [{"tide_m": 2.4}, {"tide_m": 3}]}')]
    [('2.4', 'towns[0].tide_m'), ('3', 'towns[1].tide_m')]
    """
    path: list[str | int] = []
    key = ""
    many = 0
    for token in _TOKEN.finditer(text):
        if token["text"] is not None:
            key = token["text"]
        elif token["sign"] is not None:
            _follow(path, token["sign"], key)
        elif many < MOST_NUMBERS:
            digits = token["number"].lstrip("-")
            number = number_of(digits, token.end() - len(digits))
            if number is not None:
                many += 1
                written = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
                yield number, "".join(written).lstrip(".")


def _follow(path: list[str | int], sign: str, key: str) -> None:
    """Change `path` to where the value behind `sign` is; a number is the place in a list."""
    if sign in ("{", "["):
        path.append("" if sign == "{" else 0)
    elif path and sign in ("}", "]"):
        path.pop()
    elif path and sign == ":":
        path[-1] = key
    elif path and isinstance(path[-1], int):
        path[-1] += 1


def path_words(path: str) -> str:
    """Return the words of a path, `tide_m` and `tideM` taken apart.

    >>> path_words("towns[0].highestTide_m")
    'towns highest Tide m'
    """
    return " ".join(part for part in _WORD_ENDS.split(path) if part)


def trace(answer: str, sources: Sequence[Source], *, typed: bool = False) -> tuple[Number, ...]:
    """Return the checked numbers of `answer`, in order; what is no claim (dates, references, small counts) is not listed.

    An answer that is `typed` is JSON: its numbers are all numeric leaves.

    >>> from cellwright.features.numbers.sources import source
    >>> seen = [source("output", "Python, call 1", "churn_rate 0.26536")]
    >>> [(number.text, number.words) for number in trace("Churn is 26.5 %, not 31.2 %.", seen)]
    [('26.5 %', 'from Python, call 1'), ('31.2 %', 'not in any result of this conversation')]
    """
    answer = answer[:400_000]
    if typed:
        leaves = list(numbers_of_json(answer))[:MOST_CHECKED]
        found = _verdicts([number for number, _ in leaves], [(path_words(path), "") for _, path in leaves], sources)
        paths = {number.start: path for number, path in leaves}
        prose = answer
        found = [replace(number, path=paths[number.start]) for number in found]
    else:
        written = [number for number in written_numbers(answer) if not number.quiet][:MOST_CHECKED]
        found = _verdicts(written, [_context(answer, number) for number in written], sources)
        prose = prose_of(answer) if found else ""
    return with_marks(
        [
            replace(
                number,
                from_end=prose.count(number.text, number.end),
                sentence=_sentence(answer, number) if number.verdict == "not_found" else "",
            )
            for number in found
        ]
    )


def _verdicts(
    written: Sequence[WrittenNumber], contexts: Sequence[tuple[str, str]], sources: Sequence[Source]
) -> list[Number]:
    """Return the verdict on each number, whose context is the words before and behind it."""
    if not written:
        return []
    tiers = _tiers(sources)
    outputs = [source for source in reversed(sources) if source.kind in ("output", "cell", "file")]
    cached_lines: dict[int, ShortLines] = {}

    def lines(source: Source) -> ShortLines:
        if id(source) not in cached_lines:
            cached_lines[id(source)] = short_lines(source)
        return cached_lines[id(source)]

    matches = [
        look_up(number, tiers, words(f"{before} {after}"), _unit_word(after))
        for number, (before, after) in zip(written, contexts, strict=True)
    ]
    traced = [
        (number, match) for number, match in zip(written, matches, strict=True) if match is not None and match.told
    ]
    found: list[Number] = []
    tried = 0
    for number, match, (before, after) in zip(written, matches, contexts, strict=True):
        derivation = None
        if match is None or not match.told:
            tried += 1
            if tried > 60:  # one beyond that has no source is not checked, and so not listed
                continue
            passage = [
                Term(other.value, match_of_other.hit, other.text)
                for other, match_of_other in traced
                if abs(other.start - number.start) <= PASSAGE_CHARS
            ]
            derivation = derive(number, before, after, passage, outputs, lines)
        found.append(_verdict(number, match, derivation))
    return found


def _sentence(answer: str, number: Number) -> str:
    begin = max(answer.rfind(mark, 0, number.start) for mark in ("\n", ". ", "! ", "? "))
    ends = [end for mark in ("\n", ". ", "! ", "? ") if (end := answer.find(mark, number.end)) >= 0]
    start = max(begin + 1, number.start - SENTENCE_CHARS // 2)
    end = min([*ends, number.end + SENTENCE_CHARS // 2, len(answer)])
    return " ".join(answer[start:end].replace("“", '"').replace("”", '"').split())


def with_marks(numbers: Sequence[Number]) -> tuple[Number, ...]:
    """Return `numbers`, all that an answer states, with those marked that were not found and are long enough."""
    return tuple(replace(number, marked=is_marked(number, numbers)) for number in numbers)


def is_marked(number: Number, numbers: Sequence[Number]) -> bool:
    """Return whether the answer that states `numbers` marks this one: it was not found and is long enough.

    Nothing is marked where fewer than half of the decided numbers have a source: that is prose about a method.
    """
    traced = sum(other.verdict in ("seen", "derived") for other in numbers)
    missing = sum(other.verdict == "not_found" for other in numbers)
    gate = traced + missing >= 2 and traced >= missing
    return gate and number.verdict == "not_found" and number.digits >= MARKED_DIGITS


def _tiers(sources: Sequence[Source]) -> tuple[tuple[Source, ...], ...]:
    """Return the sources in the order in which they are asked: the latest outputs, all that are not bulk, all."""
    latest_first = tuple(reversed([source for source in sources if source.values]))
    turn = max((source.turn for source in latest_first), default=0)
    latest = tuple(
        source for source in latest_first if source.turn == turn and source.kind in ("output", "cell", "file")
    )
    short = tuple(source for source in latest if len(source.values) <= FEW_NUMBERS)
    few = tuple(source for source in latest_first if len(source.values) <= FEW_NUMBERS)
    return short, few, latest_first


def _context(answer: str, number: WrittenNumber) -> tuple[str, str]:
    """Return the words of the sentence, or of the row and the column's header, before and behind the number."""
    before = answer[max(0, number.start - PASSAGE_CHARS) : number.start]
    after = answer[number.end : number.end + PASSAGE_CHARS]
    starts = [match.end() for match in _SENTENCE_END.finditer(before)]
    before = before[starts[-1] :] if starts else before
    end = _SENTENCE_END.search(after)
    return before, after[: end.start()] if end else after


def _unit_word(after: str) -> str:
    match = _UNIT_WORD.match(after)
    return match[1] if match else ""


def _verdict(number: WrittenNumber, match: Match | None, derivation: Derivation | None) -> Number:
    verdict: Verdict = "not_found"
    formula, chance, hit = "", 0.0, None
    if match is not None and match.told:
        verdict, chance, hit = "derived" if match.converted else "seen", match.chance, match.hit
        formula = f"{hit.value:,.10g} in another unit" if match.converted else ""
    elif derivation is not None:
        verdict = "derived" if derivation.sure else "weak"
        formula, chance = derivation.formula, derivation.chance
        hit = derivation.terms[0].hit if derivation.terms else None
    elif match is not None:
        verdict, chance, hit = "weak", match.chance, match.hit
    return Number(
        text=number.text,
        value=number.value,
        resolution=number.resolution,
        start=number.start,
        end=number.end,
        verdict=verdict,
        digits=number.digits,
        source=None if hit is None else place(hit.source, hit.start),
        formula=formula,
        chance=chance,
    )
