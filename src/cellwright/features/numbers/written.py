"""The numbers that a text states: their place, value, resolution, and which of them are no claims."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from cellwright.markdown.prose import HIDDEN, prose_of
from cellwright.text import lazy_pattern

Form = Literal["plain", "percent", "points"]

MOST_NUMBERS = 2_000

_UNITS = {
    **{"k": 1e3, "K": 1e3, "thousand": 1e3, "M": 1e6, "mn": 1e6, "mio": 1e6, "million": 1e6, "millions": 1e6},
    **{"bn": 1e9, "B": 1e9, "billion": 1e9, "billions": 1e9, "trillion": 1e12, "lakh": 1e5, "crore": 1e7},
}
_PERCENT = {
    **{"%": ("percent", 1.0), "percent": ("percent", 1.0), "per cent": ("percent", 1.0), "‰": ("percent", 0.1)},
    **{"points": ("points", 1.0), "pp": ("points", 1.0)},
    **{"bp": ("points", 0.01), "bps": ("points", 0.01), "basis points": ("points", 0.01)},
}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")

_NUMBER = lazy_pattern(
    r"(?P<money>[$€£¥₹]\s?)?"
    r"(?P<body>\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,20})?(?!\d|,\d)"  # 1,234.5
    r"|\d{1,3}(?:\.\d{3}){1,8},\d{1,20}(?!\d|,\d)"  # 1.234.567,89
    r"|\d{1,3}(?:\.\d{3}){2,8}(?![\d.])"  # 1.234.567
    r"|\d{1,3}(?:[\u00a0\u202f\u2009]\d{3}){1,8}(?:[.,]\d{1,20})?(?!\d)"  # 1 234 567, set by a typesetter
    r"|\d{1,3}(?: \d{3}){2,8}(?:[.,]\d{1,20})?(?!\d)"  # and by hand
    r"|\d{1,20},(?:\d{1,2}|\d{4,20})(?!\d|,\d)"  # 3,45
    r"|\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})"
    r"(?P<power>[eE][+\-−]?\d{1,3}(?!\w)|\s?[x×·*]\s?10(?:\^\{?[\-−]?\d{1,3}\}?|[⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))?"
    r"(?P<unit>(?:(?<=\d)[kKMB](?!\w)|\s?(?:bn|mn|mio)(?!\w)|\s(?:thousand|millions?|billions?|trillion|lakh|crore)(?!\w)))?"
    r"(?P<percent>\s?[%‰]|\s(?:percentage\s)?points?(?!\w)|\s?per ?cent(?!\w)|\s?(?:pp|bps?)(?!\w)|\sbasis points(?!\w))?"
)

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DATES = lazy_pattern(
    r"\d{4}-\d{1,2}(?:-\d{1,2})?(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?(?![\d-])"
    r"|(?<!\d)\d{1,2}/\d{1,2}/\d{2,4}(?!\d)|(?<!\d)\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})(?![\d.])"
    rf"|\b{_MONTH}\.?\s\d{{1,2}}(?:st|nd|rd|th)?(?:(?:,\s?|\s)\d{{4}})?(?![\d.,]\d|\d)"
    rf"|(?<!\d)\d{{1,2}}(?:st|nd|rd|th)?\.?\s{_MONTH}\b\.?(?:\s\d{{4}}\b)?|\b{_MONTH}\s\d{{4}}\b"
    r"|\b(?:1[6-9]|20)\d0s\b|\b\d0s\b|['’]\d{2}s?\b|\b[QH]\d(?:\s?\d{4})?\b|\bFY\s?\d{2,4}\b|\b\d{4}[-–/]\d{2}\b(?![-\d])"
    r"|(?<!\d)\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?!\d)|(?<![\d.])\d{1,2}\s?(?:am|pm|a\.m\.|p\.m\.|o'clock)\b",
    re.IGNORECASE,
)
_VERSION = lazy_pattern(r"\bv?\d{1,6}(?:\.\d{1,6}){2,5}(?:[a-z]\d{0,4})?\b(?!,\d)|\bv\d{1,4}(?:\.\d{1,6})?\b")
_PHONE = lazy_pattern(r"\+\d{1,3}[ -]\d{1,4}(?:[ -]\d{2,6}){1,4}|\(\d{3}\) ?\d{3}-\d{4}|\b\d{3}-\d{3}-\d{4}\b")
_SPLIT = lazy_pattern(r"(?<![\d/.])(\d{1,2})/(\d{1,2})(?:/(\d{1,2}))?(?![\d/])")
_HEADING = lazy_pattern(r" {0,3}#{1,6}\s+(?:\*\*|__)?(?:\d{1,4}\.){0,6}\d{1,4}(?:\*\*|__)?[.):]?(?=\s)")
_MARKER = lazy_pattern(r"\s{0,40}(?:>\s?){0,8}(?:\*\*)?\d{1,6}[.)](?=\s|\*\*)")
_REFERENCE = lazy_pattern(
    r"(?:\b(?:cells?|steps?|fig(?:ure|s|ures)?\.?|tables?|rows?|lines?|clusters?|folds?|sections?|chapters?|equations?|eqs?\.?|"
    r"calls?|pages?|parts?|questions?|issues?|epochs?|class(?:es)?|groups?|layers?|notebooks?|appendix|cases?|ids?|no\.|nr\.|"
    r"version|release|seed|random_state|port|room|day|week|level|phase|stage|rank|item|column|index|model|batch|run|"
    r"exercise|example|note|tier|axis|turn)(?:\s(?:no\.|number))?"
    r"[\s\u00a0]?(?:\[|#)?(?:\d{1,6}(?:,\s?|\s?[-–]\s?|\sto\s|\sand\s|,\sand\s))?|\#|\[)$",
    re.IGNORECASE,
)
_SOFTWARE = lazy_pattern(
    r"\b(?:python|pandas|numpy|scipy|sklearn|scikit-learn|pytorch|torch|tensorflow|keras|jax|matplotlib|seaborn|plotly|bokeh|"
    r"polars|duckdb|pyarrow|spark|cuda|cudnn|ubuntu|debian|windows|macos|ios|android|node|npm|java|jdk|julia|ruby|php|"
    r"postgres(?:ql)?|mysql|sqlite|docker|jupyterlab|jupyter|notebook|ipython|ipykernel|gpt|claude|sonnet|opus|haiku|gemini|"
    r"llama|mistral|qwen|bert|resnet|yolo|http|tls|tcp|php|gcc|llvm|chrome|firefox|safari|excel|office|django|flask|react|vue)"
    r"[\s-]?v?$",
    re.IGNORECASE,
)
_LETTERS_AFTER = lazy_pattern(
    r"(?:[kKMGTPm]?i?[Bb](?:/s)?|[mµun]?s(?:ec|ecs)?|mins?|h(?:rs?|ours?)?|[kKMGm]?Hz|[kcmµn]?m[²³23]?|[kmµ]?g|[mkM]?[WVAJ]h?|°[CF]?|"
    r"[xX]|px|pt|ml|[lL]|mph|kph|km/h|years?|days?|yrs?)(?![\w])"
)
_ORDINAL = lazy_pattern(r"(?:st|nd|rd|th)\b")
_WORD_AFTER = lazy_pattern(r"[-‑–]?[A-Za-z_]")
_CONFIDENCE = lazy_pattern(
    r"\s?-?(?:CI\b|CIs\b|confidence|credible|prediction interval|HDI|significance|level of)", re.IGNORECASE
)
_CONFIDENCE_LEVELS = frozenset(("68", "80", "89", "90", "94", "95", "99", "99.9"))
_ALPHAS = frozenset(("0.1", "0.05", "0.01", "0.001", "0.0001", ".05", ".01", ".001"))
_NUMBERED_PARTS = lazy_pattern(r"section|chapter|version|release|fig|table|step", re.IGNORECASE)
_SIGNIFICANCE = lazy_pattern(
    r"(?:\bp(?:[-\s]?values?)?(?:\s(?:is|was|of|are))?\s?(?:<|>|≤|≥|=|&lt;|&gt;|below|under|less than|above|smaller than)\s?"
    r"|\b(?:alpha|α|significance level|threshold|significant at|significance)(?:\s(?:of|at|is|was))?\s?(?:=|the)?\s?)$",
    re.IGNORECASE,
)
_HEDGE = lazy_pattern(
    r"(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|some|over|under|circa|ca\.|close to|up to|at least"
    r"|at most|more than|less than|fewer than|just over|just under|above|below|order of)\s|[~≈±<>≤≥]\s?)(?:the\s|a\s)?$",
    re.IGNORECASE,
)
_RANGE = lazy_pattern(r"\s?(?:[-–—−]|to\b|bis\b)\s?")


class WrittenNumber(Struct, frozen=True):
    """A number that a text states, from `start` to `end` (in characters), written as `text`.

    `value` has its unit applied (`$4.1 million`: 4,100,000) and no percent sign (`26.5 %`: 26.5); the sign is dropped.
    `resolution` is one step of its last digit, `digits` the significant ones. `unit` is what `million` stands for, else 1.
    `hedged`: "about" or the like stands before. `quiet`: not a claim that is checked unasked, `why` says the reason.
    """

    text: str
    start: int
    end: int
    value: float
    resolution: float
    digits: int
    form: Form
    unit: float
    hedged: bool
    zeros: int
    """Zeros at the end of a whole number, which may be rounded ones."""
    why: str = ""

    @property
    def quiet(self) -> bool:
        return self.why != ""


def written_numbers(text: str) -> list[WrittenNumber]:
    """Return the numbers that `text`, an answer in Markdown, states: at most MOST_NUMBERS, in order.

    Those that are no claims (dates, references, versions, conventions, small counts, years) are there with the reason.

    >>> [(number.text, number.value, number.why) for number in written_numbers("In 2019 it grew by 14.8 % to $4.1 million.")]
    [('2019', 2019.0, 'year'), ('14.8 %', 14.8, ''), ('$4.1 million', 4100000.0, '')]
    """
    numbers: list[WrittenNumber] = []
    start = 0
    for line in prose_of(text).split("\n"):
        if len(numbers) >= MOST_NUMBERS:
            break
        if any(map(str.isdigit, line)):
            numbers += _of_line(line, start)
        start += len(line) + 1
    return numbers[:MOST_NUMBERS]


def number_of(text: str, start: int) -> WrittenNumber | None:
    """Return the number that `text` alone is, which stands at `start`; None if it is none that can be looked up."""
    match = _NUMBER.fullmatch(text)
    return None if match is None else _number(text, match, start, None, None, "")


def _of_line(line: str, offset: int) -> list[WrittenNumber]:
    no_claims = _no_claims(line)
    found: list[tuple[re.Match[str], int]] = []
    at = 0
    while match := _NUMBER.search(line, at):
        at = match.end()
        found.append((match, match.end()))
    numbers = []
    for index, (match, end) in enumerate(found):
        following = found[index + 1][0] if index + 1 < len(found) else None
        joined = following is not None and _RANGE.fullmatch(line[end : following.start()]) is not None
        percent, unit = match["percent"], match["unit"]
        if joined and following is not None and not percent and not unit:  # "20-30 %", "3 to 4 million"
            percent, unit = following["percent"], following["unit"]
        why = _why_no_claim(line, match, no_claims, percent, unit)
        numbers.append(_number(line, match, offset, percent, unit, why))
    return [number for number in numbers if number is not None]


def _no_claims(line: str) -> list[tuple[int, int, str]]:
    """Return the places of a line that hold no claims, with what they are."""
    places: list[tuple[int, int, str]] = []
    if heading := _HEADING.match(line):
        places.append((0, heading.end(), "heading number"))
    if marker := _MARKER.match(line):
        places.append((0, marker.end(), "list number"))
    places += [(*found.span(), "date or time") for found in _DATES.finditer(line)]
    places += [(*found.span(), "version") for found in _VERSION.finditer(line)]
    places += [(*found.span(), "phone number") for found in _PHONE.finditer(line)]
    for found in _SPLIT.finditer(line):
        if found[0] == "24/7" or sum(int(part) for part in found.groups() if part) == 100:
            places.append((*found.span(), "convention"))
    return places


def _why_no_claim(
    line: str, match: re.Match[str], places: list[tuple[int, int, str]], percent: str | None, unit: str | None
) -> str:
    """Return why the number is no claim; empty if it is one. `percent` and `unit` may be those of its range."""
    before, after = line[max(0, match.start("body") - 60) : match.start("body")], line[match.end() : match.end() + 40]
    is_bare = not (match["money"] or percent or unit)
    return (
        _in_place(match, places)
        or _in_word(match, before, after, percent, unit)
        or (_reference(match["body"], before) if is_bare else "")
        or _convention(match["body"], before, after, percent)
        or (_small_or_year(match["body"]) if is_bare and not match["power"] else "")
    )


def _in_place(match: re.Match[str], places: list[tuple[int, int, str]]) -> str:
    start, end = match.span("body")
    for begin, stop, why in places:
        if begin < end and start < stop and not (why == "version" and match["money"]):
            return why
    return ""


def _in_word(match: re.Match[str], before: str, after: str, percent: str | None, unit: str | None) -> str:
    last = before[-1:]
    if last.isalpha() or last == "_" or (last == "." and before[-2:-1].isalnum()):
        return "part of a word"
    if last in ("-", "‑") and before[-2:-1].isalpha() and not percent:
        return "part of a word"
    if HIDDEN in (last, after[:1]) and not match["money"]:
        return "part of a name"
    if percent or unit or not _WORD_AFTER.match(after):
        return ""
    if _ORDINAL.match(after):
        return "ordinal"
    is_glued = after[:1] in "-‑" or (after[:1] != "–" and not _LETTERS_AFTER.match(after))
    return "part of a word" if is_glued else ""


def _reference(body: str, before: str) -> str:
    if _SOFTWARE.search(before):
        return "version"
    if "," in body or not _REFERENCE.search(before):
        return ""
    return "reference" if "." not in body or _NUMBERED_PARTS.search(before) else ""


def _convention(body: str, before: str, after: str, percent: str | None) -> str:
    if percent:
        is_convention = body == "100" or (body in _CONFIDENCE_LEVELS and _CONFIDENCE.match(after) is not None)
    else:
        is_convention = body in ("0", "1") or (body in _ALPHAS and _SIGNIFICANCE.search(before) is not None)
    return "convention" if is_convention else ""


def _small_or_year(body: str) -> str:
    # small whole numbers are never marked: there are too many of them, and most count what the reader sees
    if re.fullmatch(r"\d{1,3}", body) and int(body) < 13:
        return "small number"
    return "year" if re.fullmatch(r"(?:1[6-9]|20)\d\d|2100", body) else ""


def _number(
    line: str, match: re.Match[str], offset: int, percent: str | None, unit_word: str | None, why: str
) -> WrittenNumber | None:
    body = match["body"]
    plain, decimals = _plain(body)
    try:
        value = float(plain)
    except ValueError:  # pragma: no cover - the pattern lets only digits through
        return None
    resolution = 10.0**-decimals
    digits = plain.replace(".", "").lstrip("0") or "0"
    zeros = 0
    if not decimals:
        zeros = len(digits) - len(digits.rstrip("0"))
        digits = digits.rstrip("0") or "0"
    if match["power"]:
        power = match["power"].translate(_SUPERSCRIPTS).replace("−", "-").strip()
        exponent = int(power[1:] if power[0] in "eE" else re.sub(r"[{}^]", "", power.partition("10")[2]))
        if abs(exponent) > 300:
            return None
        value, resolution, zeros = value * 10.0**exponent, resolution * 10.0**exponent, 0
    unit = _UNITS.get(unit_word.strip(), 1.0) if unit_word else 1.0
    form: Form = "plain"
    if percent:
        sign = re.sub(r"(?:percentage )?points?", "points", percent.strip()).replace("per cent", "percent")
        name, factor = _PERCENT[sign]
        form, value, resolution = ("percent" if name == "percent" else "points"), value * factor, resolution * factor
    start = match.start("money") if match["money"] else match.start("body")
    before = line[max(0, start - 40) : start]
    return WrittenNumber(
        text=line[start : match.end()],
        start=offset + start,
        end=offset + match.end(),
        value=round(value * unit, 6) if unit > 1 else value,
        resolution=resolution * unit,
        digits=len(digits),
        form=form,
        unit=unit,
        hedged=_HEDGE.search(before) is not None,
        zeros=zeros,
        why=why,
    )


def _plain(body: str) -> tuple[str, int]:
    """Return the digits of a number with a point before the decimals, and how many these are."""
    body = re.sub(r"[ \u00a0\u202f\u2009]", "", body)
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", body) and not body.startswith("0,"):
        body = body.replace(",", "")
    elif re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", body):
        body = body.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d{1,3}(?:\.\d{3}){2,}", body):
        body = body.replace(".", "")
    else:
        body = body.replace(",", ".")
    whole, _, decimals = body.partition(".")
    return f"{whole or '0'}.{decimals}" if decimals else whole, len(decimals)
