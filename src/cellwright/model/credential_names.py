"""The environment variables that lead to a model by themselves: keys, tokens, profiles, headers, platforms."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cellwright.text import lazy_pattern

KEY_VARIABLES = ("ANTHROPIC_API_KEY", "CLAUDE_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""The variables that hold a key or token themselves; the first of them counts."""

_LEADS_TO_A_MODEL = lazy_pattern(
    r"ANTHROPIC_(?!.*_MODEL$|MODEL$).* | CLAUDE_API_KEY | CLAUDE_CODE_USE_.* | CLAUDE_CODE_OAUTH_TOKEN "
    r"| AWS_BEARER_TOKEN_BEDROCK",
    re.VERBOSE,
)
"""General credentials of AWS or Google are none of them: notebooks read data with them, and without the switches no request
for a message goes there."""


def leads_to_a_model(name: str) -> bool:
    """Return whether variable `name` says which account or address requests use; not those that name models."""
    return _LEADS_TO_A_MODEL.fullmatch(name) is not None


def variable_with_key(environ: Mapping[str, str]) -> str | None:
    """The name of the variable that holds the key or token; None where there is none."""
    return next((name for name in KEY_VARIABLES if environ.get(name, "").strip()), None)


def key_in(environ: Mapping[str, str]) -> str:
    """The key or token that `environ` holds; empty where there is none."""
    name = variable_with_key(environ)
    return environ[name].strip() if name is not None else ""
