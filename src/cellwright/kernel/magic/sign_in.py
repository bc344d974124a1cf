"""A key entered in a cell: in a field that shows nothing, by the way that `input()` takes, so every front end has it."""

from __future__ import annotations

import contextlib
import getpass
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import clear_output, display

from cellwright.config.credentials.entered_key import KEYS_PAGE, NO_KEY, key_source, try_and_keep
from cellwright.config.credentials.stored_key import address_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.kernel.magic.cell_prompt import MagicOptions
from cellwright.kernel.magic.magics import telling_once
from cellwright.kernel.output.saved_ops import TRANSCRIPT, VERSION
from cellwright.kernel.pages.pages import Pages
from cellwright.kernel.run.interrupts import interruptible, wait_for_person
from cellwright.kernel.run.notebook import FrontEnd
from cellwright.model.models import ProviderName
from cellwright.text import visible_line

CARD = f"""\
**Claude needs a key.** Three ways to continue:

- **Enter a key** %s ([get a key]({KEYS_PAGE})). We test it, then store it for you alone, outside the notebook.
- **Use a cloud, a gateway or a subscription**: before the kernel starts, set `CLAUDE_CODE_USE_BEDROCK=1`, \
`CLAUDE_CODE_USE_VERTEX=1` or `CLAUDE_CODE_USE_FOUNDRY=1`, or `ANTHROPIC_BASE_URL` with `ANTHROPIC_AUTH_TOKEN`. With a \
Claude subscription: `%%%%claude --provider claude-code`.
- **Try the demo** without a key: run `%%claude demo`."""

IN_THE_FIELD = "in the field below; leave it empty for another way"
IN_A_CELL = "with `%claude login`"

ASKED = "Enter it here, or choose another way. It is never put into the notebook."
WANTED = "Enter it in the field below, or leave that empty and choose another way. It is never put into the notebook."
NONE_YET = "Claude needs a key, and none was entered. `%claude login` asks for one."

_PROMPT = "API key (hidden; leave it empty to skip): "


def lacks_key(conversation: Conversation, options: MagicOptions) -> bool:
    """Return whether a prompt with these options would find no way to the model."""
    return _lacks_key(conversation, options.run.get("provider"))


def _lacks_key(conversation: Conversation, provider: ProviderName | None) -> bool:
    if conversation.model.name(provider) != "api" or conversation.model.is_given:
        return False
    in_force = conversation.in_force
    return key_source(in_force.settings, in_force.environment) == NO_KEY


def refuse_key(conversation: Conversation, provider: ProviderName | None, text: str, remove: str) -> None:
    """Raise `CellwrightError` INVALID_PARAMETERS if `text` holds a key while there is none yet: it was meant for the field.

    Nothing of it is sent or saved. `remove` says where the user takes it out.
    """
    from cellwright.redaction.secret_kinds import holds_model_key  # most kernels have a key

    if holds_model_key(text) and _lacks_key(conversation, provider):
        message = f"This looks like an API key, so it was not sent or saved. Enter it in the key field, and {remove}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


def offer_to_enter_key(
    conversation: Conversation,
    options: MagicOptions,
    front_end: FrontEnd,
    environ: Mapping[str, str],
    pages: Pages,
) -> None:
    """Show the card above the first prompt of a user who has no key yet, if they can enter one.

    A page that draws a field in the card needs no `getpass`: it hands the key to its server, where this kernel finds it.
    """
    # a prompt that may be played from a recording needs no key
    plays = options.replay not in (None, "off") or environ.get("CELLWRIGHT_REPLAY", "off") not in ("", "off")
    if plays or options.format != "text" or not front_end.allows_input or not lacks_key(conversation, options):
        return
    if not conversation.in_force.settings.own_credentials:
        return  # the run says it

    def is_settled() -> bool:
        return not lacks_key(conversation, options)

    def page_closed() -> bool:
        return pages.was_closed(front_end.page)

    if draws_key_card(front_end, pages):
        pages.key_later.clear()  # before the card is there: it may be answered at once
        with _shown_card(is_settled, _KEY_ASKED, ASKED):
            wait_for_person(_until(pages.key_later), lambda: is_settled() or page_closed())
        return
    with _shown_card(is_settled, _KEY_WANTED, WANTED) as say:
        _ask(conversation, say, is_settled, page_closed)


def draws_key_card(front_end: FrontEnd, pages: Pages) -> bool:
    """Return whether the page that ran the cell draws the field for a key, as it says when it connects.

    It cannot be heard while this thread waits unless the kernel has subshells.
    """
    if not getattr(front_end.kernel, "_supports_kernel_subshells", False):
        return False
    with interruptible():
        page = pages.expected(front_end.page)
    return page is not None and page.draws_key_card


def _until(event: threading.Event) -> Callable[[], str]:
    def wait() -> str:
        event.wait()
        return ""

    return wait


def enter_key(conversation: Conversation, front_end: FrontEnd, was_closed: Callable[[str], bool]) -> None:
    """Ask for a key and keep it: `%claude login`. Raises `CellwrightError` where none can be typed or kept."""
    if not front_end.allows_input:
        message = "A key cannot be typed here. Enter it in a terminal with `cellwright auth login`."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if not conversation.in_force.settings.own_credentials:
        message = "The administrator's settings don't allow keys of your own. Nothing was saved."
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
    address = visible_line(address_of(conversation.in_force.environment), 200)
    print(f"The key is tested at {address} and kept for you alone, outside the notebook. Keys: {KEYS_PAGE}")
    _ask(conversation, print, lambda: False, lambda: was_closed(front_end.page))


@contextlib.contextmanager
def _shown_card(is_settled: Callable[[], bool], code: str, message: str) -> Iterator[Callable[[str], None]]:
    """Show the card while the question is open; what was said last takes its place, and that of the field.

    Where no key came of it the card stays, and the cell ends with an error that it has told.
    """
    said: list[str] = []
    handle = display(_bundle(CARD % IN_THE_FIELD, code, message), raw=True, display_id=True)

    def say(text: str) -> None:
        said.append(text)
        if handle is not None:
            handle.update(_bundle(f"{CARD % IN_THE_FIELD}\n\n{text}", code, text), raw=True)

    try:
        yield say
    finally:
        settled = is_settled()
        if settled:
            end = _markdown(said[-1] if said else "Key found.")
        else:
            end = _bundle(CARD % IN_A_CELL, ErrorCode.API_KEY_MISSING, NONE_YET)
        if handle is not None and _is_prompt_cell(get_ipython()):
            # front ends leave the label of a field that was filled in, and that would be saved with the answer
            clear_output(wait=True)
            display(end, raw=True)
            # "Key found." goes with the answer's first words; where a key is kept stays to be read
            if settled and not said:
                clear_output(wait=True)
        elif handle is not None:  # what stands above a line is the user's
            handle.update(end, raw=True)
    if not settled:
        with telling_once(lambda: handle is not None):
            raise CellwrightError(ErrorCode.API_KEY_MISSING, NONE_YET)


def _is_prompt_cell(shell: Any) -> bool:
    """Return whether the cell that runs is one prompt, so that all of its output is ours."""
    request = shell.kernel.get_parent("shell") if hasattr(shell, "kernel") else {}
    return str(request.get("content", {}).get("code", "")).lstrip().startswith("%%claude")


_KEY_ASKED = "API_KEY_ASKED"
"""The code of the card in which the page draws the field itself."""

_KEY_WANTED = "API_KEY_WANTED"
"""The code of the card while the cell waits: a page that draws it offers no second run."""


def _bundle(markdown: str, code: str, message: str) -> dict[str, Any]:
    """The card for every front end, and for ours with buttons: the end of a run, as a notebook keeps it."""
    error = {"code": str(code), "message": message}
    end = {"op": "end", "stop_reason": "", "cost_usd": None, "session_cost_usd": None, "ms": 0, "error": error}
    return {**_markdown(markdown), TRANSCRIPT: {"version": VERSION, "ops": [end]}}


def _markdown(text: str) -> dict[str, str]:
    # `Markdown` would fetch a text that begins with an address
    return {"text/markdown": text, "text/plain": text}


def _ask(
    conversation: Conversation,
    say: Callable[[str], None],
    is_settled: Callable[[], bool],
    page_closed: Callable[[], bool],
) -> None:
    """Ask until a key is kept, nothing is typed, the page is gone, or it is settled elsewhere (in the panel)."""
    for _ in range(5):
        try:
            text = wait_for_person(lambda: getpass.getpass(_PROMPT), lambda: is_settled() or page_closed())
        except EOFError:
            return
        if text is None or not text.strip() or is_settled():
            return
        try:
            settings, environment = conversation.in_force.settings, conversation.in_force.environment
            keeping = try_and_keep(
                text, environment, helper=settings.api_key_helper, own_credentials=settings.own_credentials
            )
            kept = conversation.thread.submit(keeping).future.result()
            overruled = f" But {kept.overruled_by} takes precedence here: remove it to use the key."
            say(kept.sentence + (overruled if kept.overruled_by else ""))
        except CellwrightError as error:
            say(error.message)
        else:
            return
