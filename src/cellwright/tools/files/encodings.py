"""Encodings of text: by what name each goes, which one a file has, and bytes in it."""

from __future__ import annotations

import codecs
import re

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern


class NotText(Exception):
    """The bytes are not text in any encoding that is known here."""


class Encoding(Struct, frozen=True):
    """The way a file's bytes become text: a byte order mark (perhaps empty), then Python's codec `name`.

    `guessed`: nobody declared it, neither the file nor Claude. `rivals` are encodings that would fit about as well and read
    the text differently, `twins` such that read it the same; `unclear` says that none fits.
    """

    name: str
    bom: bytes = b""
    guessed: bool = False
    rivals: tuple[str, ...] = ()
    twins: tuple[str, ...] = ()
    unclear: bool = False

    @property
    def is_unicode(self) -> bool:
        """True for UTF-8, UTF-16 and UTF-32, which have every character."""
        return self.name.startswith("utf-")

    @property
    def label(self) -> str:
        """The name for people and models: `GB18030`, `Windows-1251`."""
        return shown_name(self.name)


UTF_8 = Encoding("utf-8")
LATIN_1 = Encoding("latin-1")
CP_1252 = Encoding("cp1252")
MARKED_ENCODINGS = (
    Encoding("utf-8", codecs.BOM_UTF8),
    # before UTF-16: the mark of UTF-32 LE begins with that of UTF-16 LE
    Encoding("utf-32-le", codecs.BOM_UTF32_LE),
    Encoding("utf-32-be", codecs.BOM_UTF32_BE),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)
UTF_16_LE = Encoding("utf-16-le")
UTF_16_BE = Encoding("utf-16-be")

WITH_MARK = {
    "utf-8-sig": MARKED_ENCODINGS[0],
    "utf-16": MARKED_ENCODINGS[3],
    "utf-32": MARKED_ENCODINGS[1],
}
"""Names that mean an encoding with a byte order mark."""

_SHOWN = {
    "iso8859-1": "Latin-1",
    "cp932": "Shift-JIS",
    "shift_jis": "Shift-JIS",
    "euc_jp": "EUC-JP",
    "iso2022_jp": "ISO-2022-JP",
    "cp949": "EUC-KR",
    "euc_kr": "EUC-KR",
    "gb18030": "GB18030",
    "gbk": "GBK",
    "gb2312": "GB2312",
    "big5": "Big5",
    "cp950": "Big5",
    "big5hkscs": "Big5-HKSCS",
    "koi8-r": "KOI8-R",
    "koi8-u": "KOI8-U",
    "cp866": "IBM866",
    "cp874": "Windows-874",
    "tis-620": "TIS-620",
    "mac-roman": "Macintosh",
    **{f"cp{number}": f"Windows-{number}" for number in range(1250, 1259)},
    **{f"iso8859-{part}": f"ISO-8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)},
}
"""By Python's own name of the codec; in lower case they are what the Encoding Standard, and so ripgrep, calls them."""

CONTROLS = bytes(code for code in range(32) if code not in b"\b\t\n\r\f\x1b")
MAX_CONTROLS = 0.02
WINDOWS_ONLY = bytes(range(0x80, 0xA0))
NOT_IN_CP_1252 = (0x81, 0x8D, 0x8F, 0x90, 0x9D)

DECLARATION = lazy_pattern(rb"""(?:coding[:=]|encoding=|charset=)[ \t]*["']?([A-Za-z][\w.-]{1,30})""")
IN_ASCII = lazy_pattern(
    rb"""(?:\A(?:[^\n]*\n)?[ \t\f]*\#[^\n]*?coding[:=][ \t]*|\A<\?xml[^>]*?encoding=["']|<meta[^>]*?charset=["']?)"""
    rb"([A-Za-z][\w.-]{1,30})",
    re.IGNORECASE,
)
"""Declarations that hold of a file in ASCII, too: the others may be code that is about another file."""

LONGEST_CHARACTER = 8

LOOKED_AT = 4_096

PROBE = "\n <a=1>"
"""Text that every encoding of files has in the same bytes as ASCII."""


def shown_name(name: str) -> str:
    """The usual name of a codec of Python's; its own, if that is not known."""
    try:
        return _SHOWN.get(codecs.lookup(name).name, name)
    except LookupError:
        return name


def ripgrep_label(encoding: Encoding) -> str | None:
    """The encoding's name for `rg --encoding`; None for UTF-8, and for what rg does not know."""
    if encoding.name == "utf-8":
        return None
    if encoding.is_unicode:
        return encoding.name.replace("utf-16-", "utf-16") if encoding.name.startswith("utf-16") else None
    label = _SHOWN.get(codecs.lookup(encoding.name).name)
    return None if label is None else "iso-8859-1" if label == "Latin-1" else label.lower()


def named_encoding(name: str) -> Encoding:
    """The encoding that a call names. Raises `ToolError` for a name that is unknown, or of no encoding of files."""
    try:
        known = codecs.lookup(name.strip()).name
        if known in WITH_MARK:
            return WITH_MARK[known]
        encoding = Encoding("latin-1" if known == "iso8859-1" else known)
        if encoding.is_unicode or b"\n <a=1>".decode(known) == PROBE:
            return encoding
    # the name may be that of something that is no encoding of text
    except (LookupError, UnicodeError, ValueError):
        pass
    raise ToolError(
        f"Unknown encoding {name!r}. Use a name such as utf-8, gb18030, shift_jis, big5, euc-kr, koi8-r, windows-1251 or "
        "iso-8859-7.",
        code=ErrorCode.INVALID_PARAMETERS,
    )


def detect_encoding(head: bytes, *, final: bool) -> Encoding:
    """The encoding of a file that begins with `head` (all of it if `final`). Raises `NotText` for binary data."""
    for encoding in MARKED_ENCODINGS:
        if head.startswith(encoding.bom):
            return encoding
    if b"\0" in head:
        return UTF_8 if _has_few_nulls(head, final=final) else _unmarked_utf_16(head, final=final)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final)
    except UnicodeDecodeError:
        _check_controls(head)
        return _declared_encoding(head, final=final) or guessed_encoding(head, final=final)
    return UTF_8


def _has_few_nulls(data: bytes, *, final: bool) -> bool:
    """Return whether it is UTF-8 in which a few null bytes stand: source code may have one in a string."""
    controls = len(data) - len(data.translate(None, CONTROLS))
    if controls > max(1, min(len(data) * MAX_CONTROLS, 20)) or len(data) < 16:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final)
    except UnicodeDecodeError:
        return False
    return True


def _check_controls(data: bytes) -> None:
    """Raise `NotText` for what has more control characters than text has."""
    if len(data) - len(data.translate(None, CONTROLS)) > len(data) * MAX_CONTROLS:
        raise NotText


def guessed_encoding(data: bytes, *, final: bool) -> Encoding:
    """The likeliest encoding of text that is neither UTF-8 nor says what it is. Raises `NotText`."""
    _check_controls(data)
    from cellwright.tools.files.encoding_guess import guess_encoding  # most files are UTF-8

    guess = guess_encoding(data, final=final)
    if guess is not None and guess.name != "cp1252":
        return Encoding(guess.name, guessed=True, rivals=guess.rivals, twins=guess.twins)
    # Latin-1 has control characters there that no text holds; Windows has quotation marks, dashes and the euro
    has_windows_only = len(data.translate(None, WINDOWS_ONLY)) < len(data)
    is_windows = has_windows_only and not any(byte in data for byte in NOT_IN_CP_1252)
    name = (CP_1252 if is_windows else LATIN_1).name
    if guess is None:
        return Encoding(name, guessed=True, unclear=True)
    return Encoding(name, guessed=True, rivals=guess.rivals, twins=guess.twins)


def _declared_encoding(head: bytes, *, final: bool) -> Encoding | None:
    """The encoding that the text says it has, as Python (PEP 263), XML and HTML do; None if that cannot be."""
    pattern = IN_ASCII if head.isascii() else DECLARATION
    found = pattern.search(head[:1_024])
    if found is None:
        return None
    name = found[1].decode("ascii").lower()
    try:
        if b"\n <a=1>".decode(name) != PROBE:
            return None
        text = codecs.getincrementaldecoder(name)().decode(head, final)
        again = text.encode(name)
    # the name may be none, or that of something that is no encoding of text
    except (LookupError, UnicodeError, ValueError):
        return None
    # a head may end within a character
    unread = 0 if final else LONGEST_CHARACTER
    return Encoding(name) if head.startswith(again) and len(head) - len(again) <= unread else None


def _unmarked_utf_16(head: bytes, *, final: bool) -> Encoding:
    """UTF-16 without a byte order mark, told by where its null bytes are: text is mostly of the first 256 characters."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    encoding = UTF_16_LE if odd else UTF_16_BE
    if min(even, odd) or max(even, odd) < len(head) * 0.2 or (final and len(head) % 2):
        raise NotText
    try:
        text = codecs.getincrementaldecoder(encoding.name)().decode(head, final)
    except UnicodeDecodeError:
        raise NotText from None
    if any(character < " " and character not in "\t\n\r\f\x1b" for character in text[:LOOKED_AT]):
        raise NotText
    return encoding


def decode(data: bytes, known: Encoding | None = None) -> tuple[str, Encoding]:
    """All of a file's text, without its byte order mark. `encode` gives exactly `data` back. Raises `NotText`.

    `known` is the encoding that the file had when it was read; it counts if the bytes still are text in it. Text in ASCII
    has the encoding that it declares: that is what other characters must be written in.
    """
    if known is not None and not known.is_unicode:
        try:
            return data.decode(known.name), known
        except UnicodeDecodeError:
            pass  # it was written anew
    encoding = detect_encoding(data, final=True)
    if encoding == UTF_8 and data.isascii():
        encoding = _declared_encoding(data, final=True) or UTF_8
    try:
        return data[len(encoding.bom) :].decode(encoding.name), encoding
    except UnicodeDecodeError as error:
        raise NotText from error


def decode_as(data: bytes, encoding: Encoding, display_path: str) -> str:
    """The text of a file in the encoding that a call names; an error that says where it is not."""
    try:
        return data.removeprefix(encoding.bom).decode(encoding.name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ToolError(
            f"{display_path} is not {encoding.label}: line {line} has bytes that it does not know "
            f"({data[error.start : error.start + 4].hex(' ')}). Leave encoding out to see what the file is taken as.",
            code=ErrorCode.INVALID_PARAMETERS,
        ) from error


def encode(text: str, encoding: Encoding, display_path: str) -> bytes:
    """`text` as a file's bytes; an error that names the character which the encoding does not have."""
    try:
        return encoding.bom + text.encode(encoding.name)
    except UnicodeEncodeError as error:
        what = f"was taken as {encoding.label}, which" if encoding.guessed else f"is {encoding.name}, which"
        way = "If that guess is wrong, name the encoding in `encoding`; else use" if encoding.guessed else "Use"
        raise ToolError(
            f"{display_path} {what} has no character {text[error.start]!r}; nothing was changed. "
            f"{way} another character, or convert the file to UTF-8 first.",
            code=ErrorCode.INVALID_PARAMETERS,
        ) from error


def encode_changed(before: bytes, old: str, new: str, encoding: Encoding, display_path: str) -> bytes:
    """The bytes of a file whose text was `old` and is to be `new`. An error where a guess cannot hold that.

    A guess can hold new characters that all encodings which fit about as well would write the same; and no encoding is
    kept that would write what stays otherwise than it was.
    """
    after = encode(new, encoding, display_path)
    if encoding.is_unicode or old == new:
        return after
    if encode(old, encoding, display_path) != before:
        raise _unsafe(display_path, encoding, "it would not write the rest of the file as it is now")
    if not encoding.guessed:
        return after
    added = sorted({character for character in set(new) - set(old) if character > "\x7f"})
    if added and encoding.unclear:
        raise _unsafe(display_path, encoding, f"no encoding fits its bytes well, and {added[0]!r} is new in it")
    for rival in (*encoding.rivals, *encoding.twins):
        _check_rival(rival, added, before, after, encoding, display_path)
    return after


def _check_rival(
    rival: str, added: list[str], before: bytes, after: bytes, encoding: Encoding, display_path: str
) -> None:
    for character in added:
        try:
            other = character.encode(rival)
        except UnicodeEncodeError:
            continue  # whoever writes it there does not have this encoding
        if other != character.encode(encoding.name):
            why = f"{shown_name(rival)} fits about as well, and {character!r} is other bytes in it"
            raise _unsafe(display_path, encoding, why)
    if _fits(before, rival) and not _fits(after, rival):
        raise _unsafe(display_path, encoding, f"{shown_name(rival)} fits about as well, and no more after this change")


def _fits(data: bytes, name: str) -> bool:
    try:
        data.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def _unsafe(display_path: str, encoding: Encoding, why: str) -> ToolError:
    declared = "does not declare its encoding and was taken as" if encoding.guessed else "is"
    return ToolError(
        f"{display_path} {declared} {encoding.label}, but {why}. Nothing was changed. "
        "Name the right encoding in `encoding`, or convert the file to UTF-8 first (Bash: iconv).",
        code=ErrorCode.INVALID_PARAMETERS,
    )


def encoding_note(encoding: Encoding, display_path: str) -> str:
    """A line for the result of a change whose encoding nobody declared; "" for others."""
    if not encoding.guessed:
        return ""
    return f"\n[{display_path} does not declare its encoding: taken as {encoding.label}, and written so.]"
