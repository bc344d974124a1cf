"""The environment variables that lead to a model by themselves: keys, tokens, profiles, headers, platforms."""

from __future__ import annotations

import re

_LEADS_TO_A_MODEL = re.compile(
    r"ANTHROPIC_(?!.*_MODEL$|MODEL$).* | CLAUDE_CODE_USE_.* | CLAUDE_CODE_OAUTH_TOKEN | AWS_BEARER_TOKEN_BEDROCK",
    re.VERBOSE,
)
"""General credentials of AWS or Google are none of them: notebooks read data with them, and without the switches no request
for a message goes there."""


def leads_to_a_model(name: str) -> bool:
    """Return whether variable `name` says which account or address requests use; not those that name models."""
    return _LEADS_TO_A_MODEL.fullmatch(name) is not None
