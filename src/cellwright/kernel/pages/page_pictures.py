"""Pictures of outputs as a page of the user's draws them: asked for there, bounded in time and size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.kernel.pages.comm import PageError
from cellwright.kernel.pages.pages import PageConnection, PageGone, Pages
from cellwright.tools.notebook.open_notebook import DrawnOutput

PICTURES_SECONDS = 30.0
"""A page takes 15 seconds at most for the user's consent, which it asks for once, and ten to draw."""

MAX_PICTURE_CHARS = 4_000_000

MEDIA_TYPES = ("image/png", "image/jpeg")

NOT_SHOWN = DrawnOutput(problem="no page of the user's shows it")
GONE = DrawnOutput(problem="the page that showed it does not answer")

PROBLEMS: Mapping[str, str] = {
    "consent": "the user was asked in the page whether you may see rendered outputs and has not answered yet",
    "refused": "the user's settings do not let you see rendered outputs",
    "not_shown": "no page of the user's shows it",
    "changed": "the output is another one by now; read the cell again",
    "hidden": "it is collapsed, or scrolled out of view and not drawn; ask the user to show it",
    "frame": "it is in a frame of another site, which the page cannot read",
    "foreign": "it holds pictures of another site, which the page cannot read",
    "too_large": "it has too many parts to be drawn as a picture",
    "late": "the page did not finish drawing it in time",
    "failed": "the page could not make a picture of it",
    "too_many": "one call shows at most eight such pictures; read fewer cells",
    "empty": "",
}


async def drawn_outputs(pages: Pages, page: PageConnection, params: Mapping[str, Any], count: int) -> list[DrawnOutput]:
    """Ask `page` for pictures of the `count` outputs that `params` name: one each, or the reason why there is none."""
    try:
        answer = await pages.request(page, "pictures", params, PICTURES_SECONDS)
    except PageGone:
        return [GONE] * count
    except PageError as error:
        # a page that was loaded before an upgrade knows of no pictures
        reason = "its page has to be reloaded first" if error.code == "unknown_method" else error.message.rstrip(".")
        return [DrawnOutput(problem=reason)] * count
    found = answer.get("pictures") if isinstance(answer, Mapping) else None
    given = found if isinstance(found, list) else []
    return [_drawn(given[index] if index < len(given) else None) for index in range(count)]


def _drawn(value: object) -> DrawnOutput:
    match value:
        case {"data": str(data), "media_type": str(kind), **more} if kind in MEDIA_TYPES:
            if len(data) > MAX_PICTURE_CHARS:
                return DrawnOutput(problem=PROBLEMS["too_large"])
            note = "[its lower part is cut off]" if more.get("cut") is True else ""
            return DrawnOutput(data=data, media_type=kind, note=note)
        case {"problem": str(problem)}:
            return DrawnOutput(problem=PROBLEMS.get(problem, PROBLEMS["failed"]))
    return DrawnOutput(problem=PROBLEMS["failed"])
