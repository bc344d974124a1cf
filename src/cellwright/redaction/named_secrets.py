"""Secrets known by the name beside them: in assignments, options, headers, addresses, fields and on command lines.

A name counts as `secret_names.py` says. What stands under it must look like a value: code (`password = getpass()`),
types (`password: str`), placeholders and the names of variables stay.

`-p` is a folder's parents for mkdir, a port for ssh, a password for mysql: a letter counts for the programs that are named.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re

from cellwright.redaction.secret_kinds import SecretKind, is_password, looks_random
from cellwright.redaction.secret_names import is_about_a_secret, is_always_secret, is_secret_name, words_of
from cellwright.text import lazy_pattern

_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_WORDS = ("pass", "pwd", "secret", "key", "token", "credential", "auth", "cookie", "connection", "conn_str", "connstr")
"""Every name that is always a secret has one of them in it."""

_ENVIRONMENT_WORDS = (
    *("PASS", "PW", "SECRET", "KEY", "TOKEN", "CRED", "AUTH", "COOKIE", "CONN", "DSN", "PAT", "SAS", "JWT", "SALT"),
    *("BEARER", "MNEMONIC", "SEED_PHRASE", "NETRC"),
)
"""So has the name of every variable of the environment that holds one."""

_REST = r"[\w-]{0,40}"
_QUOTE = r"(?:\\{0,3}[\"'`])"
_CLOSING = rf"(?:{_QUOTE}\s{{0,2}}\]?|[\]}}])?"
_TYPE = r"(?:\s{0,2}:\s{0,2}[A-Za-z][\w.]{0,40}(?:\[[\w., |\[\]]{0,60}\])?(?:\s{0,2}\|\s{0,2}None)?(?=\s{0,2}=[^=]))?"
_EQUALS = r"\s{0,4}(?:[:?+]=|=>|[=!]==?|<-|->|=|::(?=\s)|:)\s{0,4}"
_OPENING = r"(?:(?:[rbfu]{1,2}(?=\\{0,3}[\"'])|SecretStr\(|Secret\()?(?P<quote>\\{0,3}(?:\"\"\"|'''|[\"'])))?"
_VALUE = (
    rf"{_OPENING}(?P<secret>(?(quote)(?![\s),\]])(?:(?!(?P=quote))[^\n]){{1,400}}?"
    r"|[^\s\"'`<>(){}\[\],;&|\\]{1,400}))(?(quote)(?P=quote))"
)
"""A quoted text, or what stands up to the next space or sign."""


def _name_at(match: re.Match[str]) -> str:
    """The whole name of which the match begins with a word."""
    return match.string[_name_start(match) : match.end("rest")].lstrip("-.")


def _name_start(match: re.Match[str]) -> int:
    text, start = match.string, match.start()
    # no name has more characters
    earliest = max(start - 80, 0)
    while start > earliest and text[start - 1] in _NAME_CHARS:
        start -= 1
    # behind `\\n` or `\\t` in a string, the letter belongs to the escape
    return start + 1 if text[start - 1 : start] == "\\" and text[start : start + 1] in "nrt" else start


def _is_environment_name(name: str) -> bool:
    return name.upper() == name and is_secret_name(name) and not is_about_a_secret(name)


def fits_name(name: str, value: str) -> bool:
    """Return whether the text `value`, which stands under `name`, is a secret."""
    if is_always_secret(name):
        return _fits_password(name, value)
    if not is_secret_name(name) or is_about_a_secret(name) or _NUMBER.fullmatch(value):
        return False
    last = words_of(name).rpartition("_")[2].rstrip("0123456789")
    if name.upper() == name:  # as variables of the environment are written
        if last in ("key", "keys", "token", "tokens", "pat", "sas", "salt"):
            return looks_random(value, 6) and not is_path(value) and _WORDS_WITH_NUMBER.fullmatch(value) is None
        return _fits_password(name, value)
    if last in ("key", "keys"):
        return False
    if last == "auth" and _is_basic(value):
        return True
    return looks_random(value) and not is_path(value)


_WORDS_ALONE = lazy_pattern(r"[A-Za-z]{1,20}(?:[_-][A-Za-z]{1,20})*")
_NUMBER = lazy_pattern(r"\d[\d_.,]*")
_WORDS_WITH_NUMBER = lazy_pattern(r"[a-z]+(?:[_.-][a-z]+)+(?:[_.-]\d{1,4})?|[a-z]+[_-]\d{1,4}|v\d[\w.-]*")


def _fits_password(name: str, value: str) -> bool:
    if not is_password(value) or is_path(value):
        return False
    if is_secret_name(value) and not any(c.isdigit() for c in value):
        return False  # the name of a variable or a field in its place
    return not any(c.isspace() for c in value) or _is_phrase(name, value)


def is_path(value: str) -> bool:
    return value.startswith(("/", "~/", "./", "../", "file:")) and not any(c in value for c in "+=")


def _is_basic(value: str) -> bool:
    """Return whether a value is `user:password` in Base64."""
    try:
        return b":" in base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False


_SENTENCE = lazy_pattern(
    r"(?i).*[.?!:]\s.*|.*[.?!:…]|.*\b(?:the|is|are|was|your|you|must|not|this|that|of|for|to|and|or|required|field|please|"
    r"enter|invalid|an?|with|from|by|in|on)\b.*"
)


def _is_phrase(name: str, value: str) -> bool:
    """Return whether a value with spaces is a phrase for a password, and no sentence about one."""
    words = value.split()
    if "cookie" in name.lower():
        return "=" in value
    if "phrase" in name.lower() or "mnemonic" in name.lower():
        return len(words) <= 30
    return len(words) <= 8 and _SENTENCE.fullmatch(value) is None


def _assigned(match: re.Match[str]) -> bool:
    return _quoted(match) if match["quote"] else _bare(match)


def _quoted(match: re.Match[str]) -> bool:
    name, value = _name_at(match), match["secret"]
    if _WORDS_ALONE.fullmatch(value) and not is_always_secret(name):
        # a constant of a program: `COOKIE = "session"`; in `NPM_AUTH="hunter"` there are no spaces
        return match["separator"] == "=" and fits_name(name, value)
    return fits_name(name, value)


_CODE_AFTER = frozenset("([{")
_IDENTIFIER = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_LINE_START = lazy_pattern(r"[ \t]*(?:[-*>#+]{1,2}[ \t]+|\d{1,6}[\t→:|][ \t]*|(?:export|set|ENV|ARG)[ \t]+)?[\"']?")
_LINE_END = lazy_pattern(r"\\?[\"'`]|[ \t]*(?:\r?\n|\Z)|[ \t]+(?:\#|//)|\\n|,?[ \t]*\}")


def _bare(match: re.Match[str]) -> bool:
    """Return whether an unquoted value is a secret: a plain word could be code, unless it stands as in a configuration."""
    name, value, text, stop = _name_at(match), match["secret"], match.string, match.end()
    if not fits_name(name, value):
        return False
    is_clear = is_always_secret(name) or _is_environment_name(name)
    if text[stop : stop + 1] in _CODE_AFTER or value.startswith(("-", "=", ":")) or value.endswith(":"):
        return False
    start = _name_start(match)
    line = text.rfind("\n", max(0, start - 40), start) + 1 or max(0, start - 40)
    before, after = text[line:start], match["separator"]
    opened = start > 0 and text[start - 1] in "\"'`"
    ends = _LINE_END.match(text, stop) is not None
    alone = ends and (opened or _LINE_START.fullmatch(before) is not None)
    if not is_clear:
        return alone and after.strip() == ":"
    compact = after.strip() == ":" or (
        after == "=" and (not before.strip() or opened) and not before.startswith((" ", "\t"))
    )
    if _IDENTIFIER.fullmatch(value):
        if "." in value or not any(c.isdigit() for c in value):
            if value[0].isupper() and after.strip() == ":":
                return False  # a type
            if not alone or compact or _is_environment_name(name):
                return alone
            # below the head of a section, as in an INI file
            return _SECTION.search(text, max(0, line - 600), line) is not None
        return len(value) >= 6 or (alone and compact)
    if _NUMBER.fullmatch(value):
        return alone and compact and len(value) >= 4
    return alone or len(value) >= 4


_SECTION = lazy_pattern(r"(?m)^\[[\w .:\"/-]{1,60}\][ \t]*$")


def _variable(match: re.Match[str]) -> bool:
    name = _name_at(match)
    if not _is_environment_name(name):
        return False
    # a variable that is set stands at a line's start, or behind a space or quote
    start = _name_start(match)
    if start > 0 and match.string[start - 1] not in " \t\n\r\"'`;&|(,{\\:→$>":
        return False
    value = match["secret"]
    if match.string[match.end("secret") : match.end("secret") + 1] in _CODE_AFTER:
        return False
    return fits_name(name, value)


@functools.lru_cache(maxsize=1024)  # a log's lines have the same parameters
def _parameter_length(name: str) -> int:
    """The length from which a mixed value of a parameter is a secret: 1 for any, 0 for a name that says nothing."""
    words = words_of(name)
    if is_always_secret(name) or words == "pass":
        return 1
    if words in ("token", "jwt", "auth"):
        return 8
    signs = (
        "t",
        "ticket",
        "code",
        "sas",
        "sig",
        "signature",
        "key",
        "credential",
        "x_amz_credential",
        "x_goog_signature",
    )
    return 16 if words in signs or words.endswith(("_token", "_auth")) or words.startswith("x_amz_s") else 0


def _parameter(match: re.Match[str]) -> bool:
    """Return whether a parameter of an address holds a secret."""
    length, value = _parameter_length(match["name"]), match["secret"]
    return is_password(value) if length == 1 else length > 1 and looks_random(value, length)


def _authorization(match: re.Match[str]) -> bool:
    value = match["secret"]
    return is_password(value) if match["scheme"] else looks_random(value, 8)


def _bearer(match: re.Match[str]) -> bool:
    return looks_random(match["secret"])


def _cookie(match: re.Match[str]) -> bool:
    return any(is_password(part.partition("=")[2].strip()) for part in match["secret"].split(";") if "=" in part)


def _field(match: re.Match[str]) -> bool:
    return fits_name(match["name"], match["secret"].strip())


def _stated(match: re.Match[str]) -> bool:
    """Return whether words about a password end in one; without quotes it must look mixed."""
    value = match["secret"]
    if any(c.isspace() for c in value):
        return False
    return is_password(value) if match["quote"] else bool(match["is"]) and looks_random(value, 6)


def _phrase(match: re.Match[str]) -> bool:
    """Return whether the words up to a line's end are a phrase; in the middle of a line they could say something of one."""
    start, value = _name_start(match), match["secret"].strip()
    name = match.string[start : match.end()].partition(":")[0].partition("=")[0].strip("\"' -")
    # a single word is looked at as every other value is
    if not is_always_secret(name) or not _fits_password(name, value) or "." in value or " " not in value:
        return False
    line = match.string.rfind("\n", 0, start) + 1
    return _LINE_START.fullmatch(match.string, line, start) is not None or _SENTENCE.fullmatch(value) is None


NAMED = (
    SecretKind(
        "AWS secret key",
        ("secret",),
        lazy_pattern(
            r"(?i)secret_?access_?key[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[0-9a-zA-Z/+]{40})(?![0-9a-zA-Z/+])"
        ),
        any_case=True,
        at_hints=True,
    ),
    SecretKind(
        "authorization header",
        ("authorization",),
        lazy_pattern(
            rf"(?i)authorization{_CLOSING}\s{{0,4}}[:=,]\s{{0,4}}(?:[rbf](?=[\"']))?{_QUOTE}?"
            r"(?P<scheme>(?:basic|bearer|token|apikey|api-key|bot|digest|negotiate|ntlm|key|splunk)[ \t]+(?:token=)?)?[\"']?"
            r"(?P<secret>[^\s\"'`,(){}<>\\]{3,4000})"
        ),
        any_case=True,
        at_hints=True,
        fits=_authorization,
    ),
    SecretKind(
        "authorization header",
        ("bearer ",),
        lazy_pattern(r"(?i)(?<!\w)bearer\s+(?P<secret>[\w+/=.~-]{16,})"),
        any_case=True,
        at_hints=True,
        fits=lambda match: looks_random(match["secret"]),
    ),
    SecretKind(
        "cookie",
        ("cookie",),
        lazy_pattern(
            rf"(?i)(?<!\w)cookie(?:{_QUOTE}\s{{0,2}}\]?\s{{0,2}}[:,=]|\s{{0,2}}:)\s{{0,4}}{_QUOTE}?"
            r"(?P<secret>[\w.!#$%&*+^`|~-]{1,80}=[^\"'\n\\]{1,4000})"
        ),
        any_case=True,
        at_hints=True,
        fits=_cookie,
    ),
    SecretKind(
        "key in an address",
        ("?", "&"),
        lazy_pattern(r"[?&](?:amp;)?(?P<name>[A-Za-z][\w.-]{0,60})=(?P<secret>[^&?\s\"'`#<>\\]{1,2000})"),
        at_hints=True,
        fits=_parameter,
    ),
    SecretKind(
        "password or key",
        _WORDS,
        lazy_pattern(rf"(?i)(?:{'|'.join(_WORDS)})(?P<rest>{_REST}){_CLOSING}{_TYPE}(?P<separator>{_EQUALS}){_VALUE}"),
        any_case=True,
        at_hints=True,
        fits=_assigned,
    ),
    SecretKind(
        "password or key",
        _ENVIRONMENT_WORDS,
        lazy_pattern(
            rf"(?:{'|'.join(_ENVIRONMENT_WORDS)})(?P<rest>[A-Z0-9_]{{0,40}}){_CLOSING}(?P<separator>{_EQUALS}){_VALUE}"
        ),
        at_hints=True,
        fits=_assigned,
    ),
    SecretKind(
        "password or key",
        _ENVIRONMENT_WORDS,
        # to the end of the line for what is a phrase, else to the next space
        lazy_pattern(
            rf"(?:{'|'.join(_ENVIRONMENT_WORDS)})(?P<rest>[A-Z0-9_]{{0,40}})"
            r"=(?P<secret>(?<=PHRASE=)[^\s\"'#$][^\n\"'#]{0,300}[^\s\"'#]|[^\s'\"`]{1,400}?)(?=[;,)}]{0,2}(?:\s|\Z|[\"'`]|\\n))"
        ),
        at_hints=True,
        fits=_variable,
    ),
    SecretKind(
        "password or key",
        ("ENV ", "setenv ", "set -", "ARG ", "%env ", "configure set ", "config set "),
        lazy_pattern(
            r"(?<!\w)(?:ENV|ARG|%env|setenv|set[ ]-[a-zA-Z]{1,4}|config(?:ure)?[ ]set)[ ]+(?P<name>[A-Za-z][\w.-]{1,80})[ ]+"
            r"[\"']?(?P<secret>[^\s\"']{1,300})"
        ),
        at_hints=True,
        fits=_field,
    ),
    SecretKind(
        "password or key",
        ("name", "key"),
        lazy_pattern(
            rf"(?i)(?<!\w)(?:name|key){_CLOSING}\s{{0,2}}[:=]\s{{0,2}}{_QUOTE}?(?P<name>[A-Za-z][\w.-]{{0,80}}){_QUOTE}?,?"
            rf"\s{{1,40}}(?:\\n)?\s{{0,20}}{_QUOTE}?value{_CLOSING}\s{{0,2}}[:=]\s{{0,2}}{_QUOTE}?"
            rf"(?P<secret>[^\n\"'\\]{{1,300}}?)(?={_QUOTE}|\s*\n|\s*\Z|\s*/?>)"
        ),
        any_case=True,
        at_hints=True,
        needs="alue",
        fits=_field,
    ),
    SecretKind(
        "password or key",
        ("phrase", "mnemonic"),
        lazy_pattern(
            r"(?i)(?:phrase|mnemonic)[\"']?\s{0,2}[:=]"
            r"[ \t]{0,4}(?P<secret>[^\s\"'`<>(){}\[\]$][^\n\"'`<>(){}\[\]]{0,300})(?=[\"']?(?:\r?\n|\Z))"
        ),
        any_case=True,
        at_hints=True,
        fits=_phrase,
    ),
    SecretKind(
        "password or key",
        ("option(", "setenv(", "setdefault(", "putenv(", "setProperty(", ".set(", "config(", "header("),
        lazy_pattern(
            r"(?:option|setenv|setdefault|putenv|setProperty|\.set|config|header)\(\s{0,4}[\"'](?P<name>[\w.-]{1,80})[\"']\s{0,2},"
            r"\s{0,4}[\"'](?P<secret>[^\"'\n]{1,300})[\"']"
        ),
        at_hints=True,
        fits=_field,
    ),
    SecretKind(
        "password or key",
        ("spark.", "hive.", "fs."),
        lazy_pattern(r"(?m)(?<![^\s\"'])(?P<name>[a-z][\w-]*(?:\.[\w-]+){1,12})[ \t]+(?P<secret>\S{1,400})[ \t]*$"),
        fits=_field,
    ),
    SecretKind(
        "password or key",
        ("set_key(",),
        lazy_pattern(
            r"set_key\([^()\n]{0,200}?,\s{0,4}[\"'](?P<name>[\w.-]{1,80})[\"'],\s{0,4}[\"'](?P<secret>[^\"'\n]{1,300})[\"']"
        ),
        at_hints=True,
        fits=_field,
    ),
    SecretKind(
        "password or key",
        ("set_password(",),
        lazy_pattern(r"set_password\((?:[^()\n]{0,200},\s{0,4})?[\"'](?P<secret>[^\"'\n]{1,300})[\"']\s{0,4}\)"),
        at_hints=True,
        fits=lambda match: is_password(match["secret"]),
    ),
    SecretKind(
        "password or key",
        ("password", "identified "),
        # SQL, and a sentence: `PASSWORD 'x'`, `IDENTIFIED BY 'x'`, the password is x1
        lazy_pattern(
            r"(?i)(?:password|identified(?:\s{1,4}with\s{1,4}\w{1,40})?\s{1,4}by)\s{1,4}(?P<is>is\s{1,4}|was\s{1,4})?"
            r"(?P<quote>[\"'])?(?P<secret>(?(quote)[^\"'\n]{1,300}|[^\s\"'`]{1,300}?))(?(quote)(?P=quote)|(?=[.,;!]?(?:\s|\Z)))"
        ),
        any_case=True,
        at_hints=True,
        fits=_stated,
    ),
    SecretKind(
        "password or key",
        ("</",),
        lazy_pattern(r"<(?P<name>[A-Za-z][\w.:-]{0,60})>(?P<secret>[^<>\n]{1,300})</(?P=name)>"),
        fits=_field,
    ),
)
"""The kinds that are known by a name, but for commands."""


def _option(match: re.Match[str]) -> bool:
    """Return whether an option of a command holds a secret: `--password x`, `--ServerApp.token=x`."""
    name, value = match["name"].removeprefix("D"), match["secret"]
    if not is_password(value) or is_path(value) or value.startswith("-"):
        return False
    if is_always_secret(name) or is_always_secret(match["name"]):
        return True
    last = words_of(name).rpartition("_")[2]
    if last in ("token", "pass", "pw", "secret", "pat", "jwt"):
        return True
    return last in ("auth", "key", "cookie") and looks_random(value, 8)


def _password(match: re.Match[str]) -> bool:
    value = match["secret"]
    return is_password(value) and not is_path(value)


KIND = "password on a command line"

_GAP = r"(?:\s{1,4}|[\"']\s{0,2},\s{0,4}[\"'])"
"""Between two words of a command, or of the list of its words."""
_BETWEEN = r"(?:[^\n|]|\\\n){0,400}?"
_ARGUMENT = r"[\"']?(?P<secret>[^\s\"'`|;&<>]{1,300})"
_OPTION = rf"(?P<name>[A-Za-z][\w.-]{{1,60}})(?:=[\"']?|{_GAP}[\"']?)(?P<secret>(?!-)[^\s\"'`]{{1,300}})"


def _command(programs: str, option: str, needs: str = "") -> SecretKind:
    """An option that is a password for these programs alone; `needs` is a word that comes before it."""
    names = programs.split()
    before = rf"{_BETWEEN}(?<!\w){needs}\b" if needs else ""
    pattern = rf"(?<![\w.-])(?:{'|'.join(names)})\w{{0,20}}(?:\.exe)?\b{before}{_BETWEEN}{option}"
    return SecretKind(KIND, tuple(names), lazy_pattern(pattern), at_hints=True, needs=needs, fits=_password)


COMMANDS = (
    SecretKind(KIND, ("--",), lazy_pattern(rf"(?<![\w.-])--{_OPTION}"), at_hints=True, fits=_option),
    SecretKind(
        KIND,
        ("-D", "-pass", "-token", "-storepass", "-keypass", "-auth"),
        lazy_pattern(rf"(?<![\w.-])-{_OPTION}"),
        at_hints=True,
        fits=_option,
    ),
    _command("mysql mariadb sshpass 7z", rf"{_GAP}-p(?!ass\b|ort\b){_ARGUMENT}"),
    _command("sshpass mongo influx", rf"{_GAP}-p{_GAP}{_ARGUMENT}"),
    _command("docker podman buildah nerdctl helm skopeo az oc", rf"{_GAP}-p{_GAP}{_ARGUMENT}", "login"),
    _command("redis-cli", rf"{_GAP}-a{_GAP}{_ARGUMENT}"),
    _command("sqlcmd bcp unzip zip", rf"{_GAP}-P{_GAP}?{_ARGUMENT}"),
    _command("ldap", rf"{_GAP}-w{_GAP}?{_ARGUMENT}"),
    _command("sqlplus rman impdp expdp", rf"{_GAP}[\w-]+/(?P<secret>[^\s@\"'/]{{1,200}})(?=@|\s|$)"),
    _command("htpasswd", rf"{_GAP}-\w*b\w*{_GAP}\S+{_GAP}\S+{_GAP}{_ARGUMENT}"),
    _command("openssl", r"\bpass:(?P<secret>[^\s\"']{1,300})"),
    _command(
        "smbclient rpcclient smbmap", rf"{_GAP}(?:-U|--user){_GAP}?[\"']?[^\s%\"']+%(?P<secret>[^\s\"']{{1,200}})"
    ),
    _command("xfreerdp rdesktop", r"\s(?:/p:|-p\s)(?P<secret>[^\s\"']{1,200})"),
    SecretKind(
        KIND,
        ("curl", "http ", "https ", "xh "),
        lazy_pattern(
            rf"(?<![\w.-])(?:curl|https?|xh)(?:\.exe)?\b{_BETWEEN}{_GAP}(?:-[A-Za-z]{{0,6}}u|-U|-a|--user|--proxy-user|--auth)"
            rf"(?:=|{_GAP})?[\"']?[^\s:'\"/]{{1,100}}:(?P<secret>[^\s'\"]{{1,300}})"
        ),
        at_hints=True,
        fits=_password,
    ),
    SecretKind(
        KIND,
        ("auth=(", "auth = (", "BasicAuth("),
        lazy_pattern(
            r"(?:auth\s?=\s?|BasicAuth)\(\s{0,4}(?:[\w.]+|[\"'][^\"'\n]{0,100}[\"'])\s{0,2},\s{0,4}"
            r"[\"'](?P<secret>[^\"'\n]{1,300})[\"']"
        ),
        at_hints=True,
        fits=_password,
    ),
    SecretKind(
        KIND,
        ("chpasswd",),
        lazy_pattern(r"(?<![\w.-])[\w.-]{1,60}:(?P<secret>[^\s\"']{1,200})[\"']?\s{0,4}\|\s{0,4}(?:sudo\s)?chpasswd"),
        fits=_password,
    ),
)
