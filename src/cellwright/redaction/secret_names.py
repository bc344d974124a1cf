"""The names that secrets have: environment variables, settings, fields, options and headers.

A name is read as words, whatever joins them: `DB_PASS`, `dbPass`, `db-pass` and `db.pass` are one name. There are two
strengths. Under some names every text is a secret (`password`, `api_key`). Others are words of data and code as well
(`token`, `key`): an environment variable of that name is a secret; elsewhere its value decides.
"""

from __future__ import annotations

import functools
import re

from cellwright.text import lazy_pattern

_BETWEEN_WORDS = lazy_pattern(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_KEPT = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK"})
"""The folders of a shell, and a socket that decides for itself whom it lets in."""

_SECRET = lazy_pattern(
    r"""
    secret | passw(or)?d | passwort | passphrase | pass_phrase | passcode | credential | api_?key | private_?key
    | (auth|access|refresh|bearer|api|session)token | connection_?str(ing)? | conn_?str\b | extra_?header
    | (^|_)(\w{0,20}tokens? | keys? | pat | pwd | pw | pass | creds? | auth | authorization | bearer | jwt | salt | cookies?
      | dsn | sas | netrc | mnemonic | seed_phrase)\d*(_|$)
    | (^|_)(db|pg|ssh|sql|mysql|redis|mongo|user|root|admin|smtp|mail|ftp|login|sudo|vnc)(pass|pwd|pw)\d*(_|$)
    """,
    re.VERBOSE,
)

_ABOUT = lazy_pattern(
    r"""
    (^|_)(file|path|dir|folder|location|name|user(name)?|id|url|uri|endpoint|host|port|region|length|len|size|count|limit|max
      |min|ttl|seconds|minutes|days|expiry|expires(_in|_at)?|age|timeout|retries|algorithm|alg|type|kind|version|prefix
      |suffix|header|field|column|col|policy|enabled|required|allowed|parallelism|hash|format|env|var|arn|ref|mode|sock
      |issuer|audience|scopes?|realm|domain|provider|method|backends?|class|model|usage|budget|window|per_\w+)$
    | ^(max|min|n|num|total|input|output|prompt|completion|context)_tokens?$
    """,
    re.VERBOSE,
)
"""Names that end so hold something about a secret: where it is, how long it lasts."""

_ALWAYS = lazy_pattern(
    r"""
    (^|_)(
      \w{0,40}(passw(or)?d|passphrase|passcode) | pass_?phrase | mot_?de_?passe | seed_phrase | mnemonic | passwort
    | (\w{1,20}_)?pwd | pgpass
    | (db|database|pg|postgres|ssh|sql|mysql|redis|mongo|rabbitmq|user|root|admin|smtp|mail|email|ftp|login|sudo|vnc
      |http|https|proxy|api|service|ldap|imap|jwt
      |become|vault|wifi|keystore|truststore|master|cert)_?(pass|pw)
    | secret(_value)? | (app|client|consumer|shared|webhook|signing|jwt|session|cookie|auth)_?secret
    | (api|access|private|account|secret|signing|encryption|master|storage|shared_?access|subscription|admin|hmac
      |client|consumer|license|rsa|ssh|deploy)_?key
    | (auth|access|refresh|bearer|id|session|security|api|bot|oauth\d?|private|personal_?access|secret|identity|service
      |server_app|notebook_app|lab_app|identity_provider|user|deploy|registry|github|gh|gitlab|hf|hugging_?face|slack|npm|pypi|databricks|jupyter\w{0,10}|vault|app)_?token
    | credentials? | (session|auth|login|csrf)_?cookie | (set_)?cookies?_header | (proxy_)?authorization
    | connection_?string | conn_?str
    )_?\d{0,3}$
    """,
    re.VERBOSE,
)


def words_of(name: str) -> str:
    """`name` as lower-case words joined by `_`.

    >>> words_of("dbPassword"), words_of("X-Api-Key"), words_of("ServerApp.token")
    ('db_password', 'x_api_key', 'server_app_token')
    """
    return "_".join(word for word in _BETWEEN_WORDS.split(name) if word).lower()


@functools.lru_cache(maxsize=4096)  # each line of a log asks it of every variable
def is_secret_name(name: str) -> bool:
    """Return whether an environment variable, a setting or a header of this name holds a secret."""
    words = words_of(name)
    return name not in _KEPT and _SECRET.search(words) is not None


@functools.lru_cache(maxsize=4096)
def is_about_a_secret(name: str) -> bool:
    """Return whether a secret's name goes on to something that is none: `TOKEN_TTL`, `API_KEY_FILE`."""
    return _ABOUT.search(words_of(name)) is not None


@functools.lru_cache(maxsize=4096)
def is_always_secret(name: str) -> bool:
    """Return whether every text under this name is a secret, in code and in data as well."""
    words = words_of(name)
    return name not in _KEPT and _ALWAYS.search(words) is not None
