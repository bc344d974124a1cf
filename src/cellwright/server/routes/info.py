"""What clients may know before they ask for a run: versions, kernels, limits, settings, models, recordings.

The recordings in a folder and below it: what can be played again without a request.

The settings and models that hold in a folder, with where each value comes from. Secrets are never part of it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jupyter_server
from tornado.web import authenticated

from cellwright.agent.recording.recordings import FORMAT, FORMAT_KEY
from cellwright.config.settings.keys import KEYS
from cellwright.config.settings.settings import Origin, Settings, load_settings
from cellwright.conversation.resolve_options import ALIASES, full_name, model_of, named_models
from cellwright.conversation.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.model.models import limits, refined
from cellwright.model.pricing import PRICES_DATE, cost_usd
from cellwright.server.listed_models import ListedModelNames, ListedModels
from cellwright.server.routes.base import CellwrightRoute, may_read
from cellwright.server.routes.body import description
from cellwright.server.runs.own_kernels import folder_below
from cellwright.server.runs.runs import ClientRuns
from cellwright.tools.process.environment import is_secret
from cellwright.version import VERSION


class _FolderRoute(CellwrightRoute):
    def folder(self) -> Path:
        """The folder that the parameter `folder` means. Raises ApiError."""
        return folder_below(self.settings["server_root_dir"], self.argument("folder"))


class StatusRoute(CellwrightRoute):
    """`GET status`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        runs = self.runs
        status = {
            "version": VERSION,
            "jupyter_server": jupyter_server.__version__,
            "kernels": runs.relays.kernels(),
            "runs": runs.running,
            "limits": asdict(runs.limits),
        }
        self.answer(status)


class OpenApiRoute(CellwrightRoute):
    """`GET openapi.json`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        self.answer({**description(), "servers": [{"url": f"{self.base_url}cellwright/api"}]})


class DoctorRoute(_FolderRoute):
    """`GET doctor?folder=&offline=`"""

    @authenticated
    @may_read
    async def get(self) -> None:
        from cellwright.doctor.examination import ExaminedPlace, examine  # all that it looks at; few ask for it

        offline = self.choice("offline", "true", "false") == "true"
        examination = await asyncio.to_thread(examine, ExaminedPlace(self.folder()), offline=offline)
        self.answer(examination.to_json())


class SettingsRoute(_FolderRoute):
    """`GET settings?folder=`"""

    @authenticated
    @may_read
    async def get(self) -> None:

        self.answer(await asyncio.to_thread(settings_report, self.folder(), dict(os.environ)))


class ModelsRoute(_FolderRoute):
    """`GET models?folder=`"""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs)
        self._listed: ListedModels = settings["listed"]

    @authenticated
    @may_read
    async def get(self) -> None:
        from cellwright.config.settings.settings import load_settings  # as above

        environ = dict(os.environ)
        settings = await asyncio.to_thread(load_settings, self.folder(), environ)
        listed = await self._listed.of({**environ, **settings.env})
        self.answer(models_report(settings, environ, listed))


class CassettesRoute(_FolderRoute):
    """`GET cassettes?folder=`"""

    @authenticated
    @may_read
    async def get(self) -> None:

        root = Path(self.settings["server_root_dir"]).resolve()
        self.answer({"cassettes": await asyncio.to_thread(recordings_in, self.folder(), root)})


SUFFIX = ".jsonl"
MAX_FILES = 20_000
MAX_FOUND = 500
_SKIPPED = frozenset({"node_modules", "__pycache__"})


def recordings_in(folder: Path, root: Path) -> list[dict[str, Any]]:
    """`{"path", "format", "turns", "size", "modified"}` of each, by path; links are not followed."""
    found: list[dict[str, Any]] = []
    for looked_at, path in enumerate(_files(folder)):
        if looked_at >= MAX_FILES or len(found) >= MAX_FOUND:
            break
        try:
            about = _about(path)
        except (OSError, ValueError):
            continue  # no recording, or gone while we look
        if about is not None:
            found.append({"path": path.relative_to(root).as_posix(), **about})
    return sorted(found, key=lambda each: str(each["path"]))


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        yield from (Path(here, name) for name in names if name.endswith(SUFFIX))


def _about(path: Path) -> dict[str, Any] | None:
    if path.is_symlink():
        return None
    with path.open("rb") as file:
        header = json.loads(file.readline(1_000))
        if not isinstance(header, dict) or FORMAT_KEY not in header:
            return None
        turns = sum(1 for line in file if line.strip())
    status = path.stat()
    number = header[FORMAT_KEY]
    return {
        "format": number,
        "turns": turns if number == FORMAT else None,
        "size": status.st_size,
        "modified": status.st_mtime,
    }


_HIDDEN = "(secret)"
_MAY_HOLD_SECRETS = ("env", "hooks", "mcpServers")
"""Where names are those of variables and headers; elsewhere a name such as `apiKeyHelper` is a setting's."""


def settings_report(folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """`{"folder", "settings": {KEY: {"value", "known", "origins"}}, "notices"}`; the last of the origins counts."""
    settings = load_settings(folder, environ)
    return {
        "folder": str(folder),
        "settings": {
            ".".join(path): {
                "value": _shown(path, settings.merged.value(*path)),
                "known": path in KEYS or path[:-1] in KEYS,
                "origins": [_origin(path, origin) for origin in settings.origins(".".join(path))],
            }
            for path in sorted(settings.merged.entries)
        },
        "notices": list(settings.notices),
    }


def models_report(settings: Settings, environ: Mapping[str, str], listed: ListedModelNames) -> dict[str, Any]:
    """`{"default", "source", "problem", "models": [{"id", "display_name", …, "usd_per_million_tokens"}], "prices_date"}`.

    The models are those that the API has `listed` (`source` "api"), else those whose names are known here ("known";
    `problem` says why). Models that settings exclude are not among them; `default` is null where they exclude the one
    that they name.
    """
    default = _model(None, settings, environ)
    names = [*listed.models] or _known_names(settings, environ)
    there = dict.fromkeys(names if default is None or default in names else [default, *names])
    return {
        "default": default,
        "source": "api" if listed.models else "known",
        "problem": listed.problem or None,
        "models": [
            _model_about(name, listed.models.get(name, {})) for name in there if _model(name, settings, environ) == name
        ],
        "prices_date": PRICES_DATE,
    }


def _known_names(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    named = (full_name(name, environ) for name in (*ALIASES.values(), *named_models(settings)))
    return [name for name in named if "claude-" in name]


def _model(name: str | None, settings: Settings, environ: Mapping[str, str]) -> str | None:
    try:
        return model_of(RunOptions(model=name), settings, environ)
    except CellwrightError:
        return None


def _model_about(model: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """`said` is what the API says of it."""
    takes = refined(limits(model), said)
    name = said.get("display_name")
    return {
        "id": model,
        "display_name": name if isinstance(name, str) else None,
        "context_window": takes.context_window,
        "max_output": takes.max_output,
        "effort": takes.effort,
        "usd_per_million_tokens": {"input": _price(model, "input_tokens"), "output": _price(model, "output_tokens")},
    }


def _price(model: str, kind: str) -> float | None:
    # of a short prompt: the price of a long one may be another
    price = cost_usd(model, {"input_tokens": 0, "output_tokens": 0, kind: 1_000})
    return None if price is None else round(price * 1_000, 6)


def _origin(path: tuple[str, ...], origin: Origin) -> dict[str, Any]:
    file = None if origin.file is None else str(origin.file)
    return {"scope": origin.scope, "from": origin.label, "file": file, "value": _shown(path, origin.value)}


def _shown(path: tuple[str, ...], value: Any) -> Any:
    """`value` without what is secret: by the name that it stands under, or because it looks like a key."""
    if isinstance(value, Mapping):
        return {name: _shown((*path, str(name)), member) for name, member in value.items()}
    if isinstance(value, list):
        return [_shown(path, element) for element in value]
    if path[0] in _MAY_HOLD_SECRETS and is_secret(path[-1], str(value)):
        return _HIDDEN
    return _HIDDEN if isinstance(value, str) and is_secret("", value) else value
