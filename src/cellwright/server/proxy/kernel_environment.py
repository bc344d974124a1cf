"""What a kernel gets in its environment in place of the server's key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping

from cellwright.agent.credential_names import leads_to_a_model

_HUBS = ("JUPYTERHUB_", "JPY_")
"""A user's server before a proxy of the Hub has the user's own token as its key: what else needs the token keeps it."""


def without_credentials(environ: Mapping[str, str], holds_key: Callable[[str], bool]) -> dict[str, str]:
    """`environ` without what leads to a model by itself, and without the key under whatever other name."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_HUBS) or not (leads_to_a_model(name) or holds_key(value) or holds_key(name))
    }


def with_token(
    environ: Mapping[str, str], *, token: str, proxy_url: str, holds_key: Callable[[str], bool]
) -> dict[str, str]:
    """The environment of a kernel that reaches the model by the proxy at `proxy_url` alone."""
    return {
        **without_credentials(environ, holds_key),
        "ANTHROPIC_BASE_URL": proxy_url,
        "ANTHROPIC_API_KEY": token,
    }


def forget_credentials(environ: MutableMapping[str, str], holds_key: Callable[[str], bool]) -> None:
    """Take the key out of the server's own environment, which terminals and everything else it starts inherit."""
    kept = without_credentials(environ, holds_key)
    for name in [name for name in environ if name not in kept]:
        del environ[name]
