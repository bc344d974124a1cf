"""The settings and models that hold in a folder, with where each value comes from. Secrets are never part of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.config.settings.known_settings import KEYS
from cellwright.config.settings.settings import Settings, load_settings
from cellwright.conversation.resolve_options import ALIASES, full_name, model_of, named_models
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.model.models import limits, refined
from cellwright.model.pricing import PRICES_DATE, cost_usd
from cellwright.redaction.redaction import is_secret
from cellwright.server.listed_models import ListedModels

_HIDDEN = "(secret)"
_MAY_HOLD_SECRETS = ("env", "hooks", "mcpServers")
"""Settings whose names are those of variables and headers; elsewhere a name like `apiKeyHelper` is a setting's."""


def settings_report(folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """`{"folder", "settings": {KEY: {"value", "known", "origins"}}, "notices"}`; the last of the origins counts."""
    settings = load_settings(folder, environ)
    return {
        "folder": str(folder),
        "settings": {
            ".".join(path): {
                "value": _shown(path, settings.merged.value(*path)),
                "known": path in KEYS or path[:-1] in KEYS,
                "origins": [
                    {
                        "scope": origin.scope,
                        "from": origin.label,
                        "file": None if origin.file is None else str(origin.file),
                        "value": _shown(path, origin.value),
                    }
                    for origin in settings.origins(".".join(path))
                ],
            }
            for path in sorted(settings.merged.entries)
        },
        "notices": list(settings.notices),
    }


async def models_report(folder: Path, environ: Mapping[str, str], listed_models: ListedModels) -> dict[str, Any]:
    """`{"default", "source", "problem", "models": [{"id", "display_name", …, "usd_per_million_tokens"}], "prices_date"}`.

    The models are those that the API lists (`source` "api"), else those whose names are known here ("known";
    `problem` says why). Models that settings exclude are not among them; `default` is null where they exclude the one
    that they name.
    """
    settings = await asyncio.to_thread(load_settings, folder, environ)
    listed = await listed_models.of({**environ, **settings.env})
    default = _model(None, settings, environ)
    named = (full_name(name, environ) for name in (*ALIASES.values(), *named_models(settings)))
    names = [*listed.models] or [name for name in named if "claude-" in name]
    there = dict.fromkeys(names if default is None or default in names else [default, *names])
    return {
        "default": default,
        "source": "api" if listed.models else "known",
        "problem": listed.problem or None,
        "models": [
            _model_json(name, listed.models.get(name, {})) for name in there if _model(name, settings, environ) == name
        ],
        "prices_date": PRICES_DATE,
    }


def _model(name: str | None, settings: Settings, environ: Mapping[str, str]) -> str | None:
    try:
        return model_of(RunOptions(model=name), settings, environ)
    except CellwrightError:
        return None


def _model_json(model: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """`described` is what the API says of it."""
    takes = refined(limits(model), described)
    name = described.get("display_name")
    return {
        "id": model,
        "display_name": name if isinstance(name, str) else None,
        **takes.reported(),
        "usd_per_million_tokens": {"input": _price(model, "input_tokens"), "output": _price(model, "output_tokens")},
    }


def _price(model: str, kind: str) -> float | None:
    # of a short prompt: the price of a long one may be another
    price = cost_usd(model, {"input_tokens": 0, "output_tokens": 0, kind: 1_000})
    return None if price is None else round(price * 1_000, 6)


def _shown(path: tuple[str, ...], value: Any) -> Any:
    """`value` without what is secret: by the name that it stands under, or because it looks like a key."""
    if isinstance(value, Mapping):
        return {name: _shown((*path, str(name)), member) for name, member in value.items()}
    if isinstance(value, list):
        return [_shown(path, element) for element in value]
    if path[0] in _MAY_HOLD_SECRETS and is_secret(path[-1], str(value)):
        return _HIDDEN
    return _HIDDEN if isinstance(value, str) and is_secret("", value) else value
