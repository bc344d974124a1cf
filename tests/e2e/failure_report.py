"""What a scene saw when it failed: the screen, the browser's console, the model's requests, the kernel's state, the log."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab_server import Lab
from playwright.sync_api import Error as PageError

from cellwright.testing import MessagesServer

FOLDER = Path(os.environ.get("CELLWRIGHT_E2E_PICTURES") or Path(__file__).parents[2] / ".failed-scenes")
"""Within a test the variable is not in `environ`."""
PAGE = "page"
SHOWN_CHARS = 4_000
WITH_KEYBOARD = "() => document.activeElement?.cloneNode(false).outerHTML ?? 'nothing'"


def add_what_was_seen(report: Any, name: str, scene: dict[str, Any]) -> None:
    """Add to the report of a scene, of which these are the fixtures' values, what helps to say why it failed."""
    FOLDER.mkdir(exist_ok=True)
    page = scene[PAGE]
    report.sections.append(("Console", "\n".join(page.complaints)))
    with contextlib.suppress(PageError):  # a page that has crashed shows nothing
        picture = FOLDER / f"{name.replace('/', '-')}.png"
        page.screenshot(path=picture, full_page=True)
        report.sections.append(("Screen", str(picture)))
        report.sections.append(("Has the keyboard", page.evaluate(WITH_KEYBOARD)))
        # where the picture cannot be had, this tells most of it
        shown = [page.locator("body").inner_text(), *page.locator(".transcript").all_inner_texts()]
        report.sections.append(("Text on the screen", "\n--\n".join(text[-SHOWN_CHARS:] for text in shown)))
    if (model := scene.get("model")) is not None:
        report.sections.append(("The model's requests", "\n".join(_requests(model))))
    if (tab := scene.get("tab")) is not None:
        report.sections.extend(_of_kernels(tab.lab))


def _requests(model: MessagesServer) -> Iterator[str]:
    for number, request in enumerate(model.requests):
        messages = (request.body or {}).get("messages") or [{}]
        yield f"{number}: {request.status}, {len(messages)} messages, the last: {json.dumps(messages[-1])[-1_000:]}"
    yield f"{len(model.rejected)} refused, {model.remaining_turns} turns left"


def _of_kernels(lab: Lab) -> Iterator[tuple[str, str]]:
    kernels = [(found["path"], found["kernel"]["execution_state"]) for found in lab.sessions()]
    yield "Kernels", "\n".join(f"{path}: {state}" for path, state in kernels)
    for path in sorted(lab.state.rglob("*")):
        if path.suffix in (".jsonl", ".log"):
            yield str(path.relative_to(lab.state)), _end_of(path)
    yield "JupyterLab's log", _end_of(lab.log)


def _end_of(path: Path) -> str:
    return path.read_text("utf-8", "replace")[-SHOWN_CHARS:]
