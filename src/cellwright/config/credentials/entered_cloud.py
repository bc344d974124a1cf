"""A cloud or gateway that somebody enters: tried with the shortest of requests, then written into their own settings.

Where it has a key of its own that is kept as any other key is, and never stands in the settings.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.config.credentials.entered_key import key_of, overruled_by, try_and_keep
from cellwright.config.credentials.stored_key import address_of, keep
from cellwright.config.settings.edit import set_value
from cellwright.config.settings.settings_files import users_folder
from cellwright.config.user_files import SettingsProblem
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.credentials import choose_transport
from cellwright.model.retry import RequestFailed, failure_of_response
from cellwright.model.transports.transport import Transport

TEST_SECONDS = 60.0


class Field(Struct, frozen=True):
    """A line of the form: the variable that holds it, its label, an example, and whether it may be left empty."""

    variable: str
    label: str
    example: str
    optional: bool = False


MODEL = "ANTHROPIC_MODEL"


def _model_field(example: str) -> Field:
    """Platforms have names of their own for the models, and not each has the newest."""
    return Field(MODEL, "Model (if not the default)", example, optional=True)


class Cloud(Struct, frozen=True):
    """A way to Claude that is not Anthropic's own address: the variable that chooses it, and what it needs besides.

    `credential` says where the credential comes from; `key`: one is entered.
    """

    id: str
    name: str
    fields: tuple[Field, ...]
    credential: str
    switch: str = ""
    key: str = ""


CLOUDS: Sequence[Cloud] = (
    Cloud(
        "bedrock",
        "Amazon Bedrock",
        (
            Field("AWS_REGION", "Region", "us-east-1"),
            Field("AWS_PROFILE", "Profile (if not the default)", "default", optional=True),
            _model_field("global.anthropic.claude-opus-4-6-v1"),
        ),
        "Signs with the AWS credentials of this machine: aws configure, aws sso login, variables or a role.",
        switch="CLAUDE_CODE_USE_BEDROCK",
    ),
    Cloud(
        "vertex",
        "Google Vertex AI",
        (
            Field("ANTHROPIC_VERTEX_PROJECT_ID", "Project", "my-project"),
            Field("CLOUD_ML_REGION", "Region", "global"),
            _model_field("claude-opus-4-6"),
        ),
        "Signs in as this machine does: gcloud auth application-default login, or a service account.",
        switch="CLAUDE_CODE_USE_VERTEX",
    ),
    Cloud(
        "foundry",
        "Microsoft Foundry",
        (Field("ANTHROPIC_FOUNDRY_RESOURCE", "Resource", "my-resource"), _model_field("the name of your deployment")),
        "The key is in the resource's page in Foundry.",
        switch="CLAUDE_CODE_USE_FOUNDRY",
        key="ANTHROPIC_FOUNDRY_API_KEY",
    ),
    Cloud(
        "gateway",
        "A gateway or a server of your own",
        (Field("ANTHROPIC_BASE_URL", "Address", "https://gateway.example.org"),),
        "You get the key from whoever runs the gateway.",
        key="ANTHROPIC_AUTH_TOKEN",
    ),
)


class KeptCloud(Struct, frozen=True):
    """The cloud that is in the user's settings now; `overruled_by` names what goes before it, empty where it counts."""

    name: str
    file: Path
    tried: bool
    overruled_by: str


def forms() -> list[dict[str, Any]]:
    """Describe the clouds for who draws their forms."""
    return [
        {
            "id": cloud.id,
            "name": cloud.name,
            "fields": [
                {"variable": each.variable, "label": each.label, "example": each.example, "optional": each.optional}
                for each in cloud.fields
            ],
            "credential": cloud.credential,
            "key": bool(cloud.key),
            "settings": [
                *([f"{cloud.switch}=1"] if cloud.switch else []),
                *(each.variable for each in cloud.fields if not each.optional),
                *([cloud.key] if cloud.key else []),
            ],
        }
        for cloud in CLOUDS
    ]


async def try_and_keep_cloud(
    id: str,
    values: Mapping[str, str],
    key: str,
    environ: Mapping[str, str],
    *,
    model: str,
    own_credentials: bool = True,
) -> KeptCloud:
    """Try the cloud with what was entered, and keep it. Raises `CellwrightError`, keeping nothing."""
    if not own_credentials:
        message = "The administrator's settings don't allow credentials of your own. Nothing was saved."
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
    cloud = next((each for each in CLOUDS if each.id == id), None)
    if cloud is None:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"Cloud {id!r} was not found.")
    entered = _entered(cloud, values)
    # one way at a time: the switches of the others go
    changes = {**{other.switch: None for other in CLOUDS if other.switch}, **entered}
    after = {name: value for name, value in {**environ, **changes}.items() if value is not None}
    tried = True
    if cloud.id == "gateway":
        tried = (await try_and_keep(key, after, helper=None)).tried
    else:
        secret = {cloud.key: key_of(key)} if cloud.key and key else {}
        await _ask(choose_transport({**after, **secret}), cloud, entered.get(MODEL) or model)
        if secret:
            await asyncio.to_thread(keep, secret[cloud.key], address_of(after))
    file = users_folder(environ) / "settings.json"
    await asyncio.to_thread(_write, file, changes)
    return KeptCloud(cloud.name, file, tried, "" if cloud.switch else overruled_by(after, None))


def _entered(cloud: Cloud, values: Mapping[str, str]) -> dict[str, str | None]:
    entered: dict[str, str | None] = {cloud.switch: "1"} if cloud.switch else {}
    for field in cloud.fields:
        value = values.get(field.variable, "").strip()
        if (not value and not field.optional) or len(value) > 500 or not value.isprintable():
            message = f"{field.label} is missing, or is no line of text. Nothing was sent or kept."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        if field.variable.endswith("_URL") and not value.startswith(("https://", "http://")):
            message = f"{field.label}: an address begins with https://. Nothing was sent or kept."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        if value or field.variable != MODEL:  # a model that was chosen before stays
            entered[field.variable] = value.rstrip("/") or None
    return entered


async def _ask(transport: Transport, cloud: Cloud, model: str) -> None:
    """Ask for one token: no cloud has a question that is free. Raises `CellwrightError`."""
    body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    try:
        async with (
            asyncio.timeout(TEST_SECONDS),
            transport.post(json.dumps(body).encode(), stall_seconds=TEST_SECONDS) as reply,
        ):
            if reply.status == 200:
                return
            failure = failure_of_response(
                reply.status, reply.headers, await reply.body(100_000), model=model, now=time.time()
            )
    except RequestFailed as failed:
        raise _not_kept(failed.failure.code, transport.redact(failed.failure.message)) from None
    except CellwrightError as error:
        raise _not_kept(error.code, error.message) from None
    except TimeoutError:
        raise _not_kept(ErrorCode.API_NETWORK_ERROR, f"{cloud.name} did not answer.") from None
    finally:
        await transport.aclose()
    raise _not_kept(failure.code, transport.redact(failure.message))


def _not_kept(code: ErrorCode, why: str) -> CellwrightError:
    return CellwrightError(code, f"{why} Nothing was kept.")


def _write(file: Path, changes: Mapping[str, str | None]) -> None:
    try:
        for name, value in changes.items():
            set_value(file, ("env", name), value)
    except (OSError, SettingsProblem) as error:
        message = f"{file} could not be changed ({error}). The settings are as they were."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
