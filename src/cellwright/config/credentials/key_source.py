"""The source of the key, in words. Apart from the page that shows it: a first prompt asks whether there is one."""

from __future__ import annotations

from collections.abc import Mapping

from cellwright.config.credentials.stored_key import kept_source
from cellwright.config.settings.settings import Settings
from cellwright.model.credentials import source_of_credential

NO_KEY = "none: `cellwright auth login` adds one"


def key_source(settings: Settings, environment: Mapping[str, str]) -> str:
    """Name the source of the key; never a part of the key."""
    if settings.api_key_helper is not None and source_of_credential(environment) is None:
        origin = settings.origin("apiKeyHelper")
        return f"apiKeyHelper ({origin.label})" if origin else "apiKeyHelper"
    if (place := kept_source(environment, own_credentials=settings.own_credentials)) is not None:
        return f"`cellwright auth login` ({place})"
    source = source_of_credential(environment)
    if source is None:
        return NO_KEY
    origin = settings.origin(f"env.{source}")
    return f"{source} ({origin.label})" if origin else source
