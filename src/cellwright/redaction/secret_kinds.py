"""The secrets that are known by their look: key formats, private keys, passwords in addresses and in assignments.

Nothing here guesses from how random a text looks: hashes, ids and encoded images are what data is made of. Each kind
is looked for only if one of its `hints` stands in the text, so that most text costs a few substring searches.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from cellwright.text import lazy_pattern

Fits = Callable[[re.Match[str]], bool]

_TOKEN_CHARS = lazy_pattern(r"[A-Za-z0-9]")

_NO_PASSWORD = lazy_pattern(
    r"""
    [*•x.?_-]+ | <.* | \{.* | \$.* | %.* | \[.* | your.* | .*(example|placeholder|redacted|changeme|change_me).*
    | [A-Z][A-Z0-9]*(_[A-Z0-9]+)+ | str(ing)? | object | category | text | bool(ean)? | u?int\d* | float\d* | none | null
    | true | false | required | optional | hidden | default | unknown | missing | bearer | basic | password | passwd | secret
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Words in a password's place that are none: placeholders, names of variables (`OPENAI_API_KEY`), types."""


class SecretKind(Struct, frozen=True):
    """One kind of secret. The group `secret` of `pattern` is what is removed; without it, the whole match.

    `hints` are lower-case when `any_case`. `at_hints`: matches begin with one of the hints, and are tried there alone.
    `fits` has the last word about a match.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    any_case: bool = False
    at_hints: bool = False
    fits: Fits | None = None

    def matches(self, text: str, lower: str) -> Iterator[re.Match[str]]:
        """All of this kind in `text`; `lower` is the same in lower case."""
        if not self.may_be_in(text, lower):
            return
        # a letter's lower case can be longer than the letter: then places in the one are none in the other
        found = (
            self._at_hints(text, lower) if self.at_hints and len(lower) == len(text) else self.pattern.finditer(text)
        )
        yield from (match for match in found if self.fits is None or self.fits(match))

    def _at_hints(self, text: str, lower: str) -> Iterator[re.Match[str]]:
        starts = sorted({start for hint in self.hints for start in _places(hint, lower)})
        return (match for start in starts if (match := self.pattern.match(text, start)))

    def may_be_in(self, text: str, lower: str) -> bool:
        searched = lower if self.any_case else text
        return any(hint in searched for hint in self.hints)


def _places(hint: str, text: str) -> Iterator[int]:
    start = text.find(hint)
    while start >= 0:
        yield start
        start = text.find(hint, start + 1)


def whole_token(match: re.Match[str]) -> bool:
    """Return whether a match is not a piece of something longer: a protein's sequence has `AKIA` in it, too."""
    start, stop = match.span()
    text = match.string
    before = start > 0 and _TOKEN_CHARS.match(text[start]) and _TOKEN_CHARS.match(text[start - 1])
    after = stop < len(text) and _TOKEN_CHARS.match(text[stop - 1]) and _TOKEN_CHARS.match(text[stop])
    return not before and not after


def is_password(value: str) -> bool:
    """Return whether a value that stands where a password belongs can be one."""
    return _NO_PASSWORD.fullmatch(value) is None and len(set(value)) > 1


def _looks_random(value: str) -> bool:
    # words of a text are called tokens, too
    return len(value) >= 16 and bool(re.search(r"\d", value)) and bool(re.search(r"[A-Za-z]", value))


def _assigned(match: re.Match[str]) -> bool:
    value = match["secret"]
    if match["name"].lower() == "token":
        return _looks_random(value)
    return is_password(value) and not value.startswith(("/", "~", "./"))


def _environment(match: re.Match[str]) -> bool:
    value = match["secret"]
    return is_password(value) and not value.startswith(("/", "~")) and bool(re.search(r"\d", value))


def _parameter(match: re.Match[str]) -> bool:
    return _looks_random(match["secret"])


def _url_password(match: re.Match[str]) -> bool:
    return is_password(match["secret"])


def _web_token(match: re.Match[str]) -> bool:
    """Return whether the first part of a JSON web token is a JWT's header."""
    head = match[0].split(".")[0]
    try:
        return "alg" in json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError, TypeError):
        return False


def _format(name: str, hints: str, pattern: str) -> SecretKind:
    return SecretKind(name, tuple(hints.split()), lazy_pattern(pattern), fits=whole_token)


KEY_FORMATS = (
    _format("Anthropic API key", "sk-ant-", r"sk-ant-[\w-]{8,}"),
    _format("OpenAI API key", "sk-proj- sk-svcacct- sk-admin-", r"sk-(?:proj|svcacct|admin)-[\w-]{20,}"),
    _format("OpenAI API key", "T3BlbkFJ", r"(?<![\w-])sk-[\w-]{0,200}?T3BlbkFJ\w{20}"),
    _format("GitHub token", "github_pat_", r"github_pat_\w{22,}"),
    _format("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    _format("Google API key", "AIza", r"AIza[\w-]{35}"),
    _format("Google access token", "ya29.", r"ya29\.[\w-]{20,}"),
    _format("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _format("npm token", ":_authToken", r"(?<=:_authToken=)[A-Fa-f0-9-]{36}"),
    _format("Databricks token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    _format("DigitalOcean token", "dop_v1_", r"dop_v1_[0-9a-f]{64}"),
    _format("SendGrid API key", "SG.", r"SG\.[\w-]{22}\.[\w-]{43}"),
    _format("Mailchimp API key", "-us", r"[0-9a-f]{32}-us\d{1,2}"),
    _format("Telegram bot token", ":AA", r"\d{8,10}:AA[\w-]{33}"),
)

_QUOTED = r"[\"'\]]{0,2}\s{0,4}(?::=|=>|==?|:)\s{0,4}[rbuf]{0,2}(?P<quote>[\"'])(?P<secret>[^\"'\s]{6,300})(?P=quote)"
_NAMES = (
    *("password", "passwd", "passphrase", "pwd", "secret_access_key", "secret_key", "secret"),
    *("api_key", "apikey", "api-key", "access_key", "account_key", "private_key"),
    *("auth_token", "access_token", "refresh_token", "id_token", "token"),
)
_ASSIGNMENT = rf"(?i)(?<![A-Za-z])(?P<name>{'|'.join(_NAMES)})_?\d{{0,3}}{_QUOTED}"

WRITTEN = (
    SecretKind(
        "JSON web token",
        ("eyJ",),
        lazy_pattern(r"(?<![\w-])eyJ[\w-]{8,4000}={0,2}\.[\w-]{8,16000}={0,2}\.[\w-]*"),
        fits=_web_token,
    ),
    SecretKind(
        "private key",
        ("PRIVATE KEY",),
        # with its end, or as far as it looks like one: the words alone stand in many a text about keys
        lazy_pattern(
            r"-----BEGIN[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:(?:[^-]|-(?!----)){20,}"
            r"-----END[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|(?:\s|\\[nr])*[A-Za-z0-9+/=]{40}[A-Za-z0-9+/=\s]*)"
        ),
    ),
    SecretKind(
        "password in an address",
        ("://",),
        lazy_pattern(r"(?<=://)[^\s:/?#@\"'<>\\]{0,100}:(?P<secret>[^\s/@\"'<>\\]{1,200})@(?=[\w\[.-])"),
        fits=_url_password,
    ),
    SecretKind(
        "password in a connection string",
        ("password=", "pwd="),
        lazy_pattern(r"(?im)(?<![A-Za-z_])(?:password|pwd)=(?P<secret>[^;&\s\"'()]{4,200})(?=[;&])"),
        any_case=True,
        fits=_url_password,
    ),
    SecretKind(
        "password in a connection string",
        ("password=",),
        lazy_pattern(
            r"(?m)^(?=.*\b(?:host|dbname)=[^\s,()]+(?:\s|$)).*?\bpassword=(?P<secret>[^;&,\s\"'()]{4,200})(?![^\s\"'])"
        ),
        fits=_url_password,
    ),
    SecretKind("password or key", _NAMES, lazy_pattern(_ASSIGNMENT), any_case=True, at_hints=True, fits=_assigned),
    SecretKind(
        "AWS secret key",
        ("secret_access_key", "secretaccesskey"),
        lazy_pattern(
            r"(?i)secret_?access_?key[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[0-9a-zA-Z/+]{40})(?![0-9a-zA-Z/+])"
        ),
        any_case=True,
    ),
    SecretKind(
        "environment variable",
        ("KEY=", "TOKEN=", "SECRET=", "PASSWORD=", "PASSWD="),
        lazy_pattern(
            r"(?m)^[ \t]*(?:export[ ]+)?(?:[A-Z0-9]+_)*(?:API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|TOKEN|SECRET|PASSWORD"
            r"|PASSWD)=[\"']?(?P<secret>[^\s'\"]{8,300})"
        ),
        fits=_environment,
    ),
    SecretKind(
        "authorization header",
        ("bearer ", "authorization"),
        lazy_pattern(
            r"(?i)(?:\bbearer\s+|\bauthorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:basic|token)\s+)(?P<secret>[\w+/=.~-]{16,})"
        ),
        any_case=True,
        fits=_parameter,
    ),
    SecretKind(
        "key in an address",
        ("token=", "key=", "sig=", "signature=", "credential="),
        lazy_pattern(
            r"(?i)[?&](?:access_?token|auth_?token|api_?key|key|token|sig|(?:x-amz-)?signature|x-amz-security-token"
            r"|x-amz-credential)=(?P<secret>[^&\s\"'#<>]{16,2000})"
        ),
        any_case=True,
        fits=_parameter,
    ),
)

DETECTORS: Mapping[str, tuple[str, tuple[str, ...], Fits]] = {
    "AWSKeyDetector": ("AWS access key", ("AKIA", "ASIA", "ABIA", "ACCA"), whole_token),
    "AzureStorageKeyDetector": ("Azure storage key", ("AccountKey=",), whole_token),
    "GitHubTokenDetector": ("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), whole_token),
    "GitLabTokenDetector": (
        "GitLab token",
        (
            *("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "GR1348941"),
            *("glcbt-", "glimt-", "glptt-", "glagent-", "gloas-"),
        ),
        whole_token,
    ),
    "PypiTokenDetector": ("PyPI token", ("pypi-AgE",), whole_token),
    "SlackDetector": ("Slack token", ("xox", "hooks.slack.com/"), whole_token),
    "SquareOAuthDetector": ("Square secret", ("sq0csp-",), whole_token),
    "StripeDetector": ("Stripe key", ("sk_live_", "rk_live_"), whole_token),
}
"""The detectors of `detect-secrets` that know a format, by class. The others guess, look for what is no secret, or take
a time that grows with the square of the text: what they know and is missing here stands above."""


@functools.cache
def detected(detector: str) -> tuple[SecretKind, ...]:
    """The kinds that a detector of `detect-secrets` knows. The first call takes 0.3 s: keep it off the loop."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    name, hints, fits = DETECTORS[detector]
    known: dict[str, Any] = get_mapping_from_secret_type_to_class()
    classes = {found.__name__: found for found in known.values()}
    return tuple(SecretKind(name, hints, pattern, fits=fits) for pattern in classes[detector]().denylist)


_SECRET_VALUE = lazy_pattern(
    r"""
    ^(sk-|pk-lf-|ghp_|gho_|ghu_|ghs_|github_pat_|glpat-|xox[abeprs]-|hf_|npm_|pypi-|AKIA|ASIA|AIza)[\w-]{8}
    | ^ey[\w-]+\.ey[\w-]+\. | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
    """,
    re.VERBOSE,
)
_PASSWORD_IN_ADDRESS = lazy_pattern(r"^\w[\w+.-]*://[^/\s@]*:[^/\s@]+@")


def looks_secret(value: str) -> bool:
    """Return whether a whole value is a key, a token, or an address with a password."""
    return _SECRET_VALUE.search(value) is not None or has_password_in_address(value)


def has_password_in_address(value: str) -> bool:
    """Return whether a value is an address with a password in it."""
    return _PASSWORD_IN_ADDRESS.match(value) is not None
