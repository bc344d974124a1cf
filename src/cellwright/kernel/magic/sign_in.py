"""A key entered in a cell: in a field that shows nothing, by the way that `input()` takes, so every front end has it."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Callable, Iterator, Mapping

from cellwright.commands.status import NO_KEY, key_source
from cellwright.config.entered_key import KEYS_PAGE, KeptKey, try_and_keep
from cellwright.config.kept_key import address_of
from cellwright.conversation.conversation import Conversation
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.magic.line import MagicOptions
from cellwright.kernel.run.front_end import FrontEnd
from cellwright.text import visible_line

CARD = f"""\
**Claude needs a key.** Three ways to go on:

- **Enter a key** in the field below ([where keys come from]({KEYS_PAGE})). It is tried, kept for you alone outside the \
notebook, and counts at once.
- **Use a cloud, a gateway or a subscription**: leave the field empty; the error that follows says what to set.
- **Try the demo** without a key: leave the field empty, and run `%claude demo`."""

MAX_ATTEMPTS = 5
_PROMPT = "API key (it is not shown; empty: not now): "


def lacks_key(conversation: Conversation, options: MagicOptions) -> bool:
    """Return whether a prompt with these options would find no way to the model."""
    if conversation.model.name(options.provider) != "api" or conversation.model.is_given:
        return False
    in_force = conversation.in_force
    return key_source(in_force.settings, in_force.environment) == NO_KEY


def offer_to_enter_key(
    conversation: Conversation, options: MagicOptions, front_end: FrontEnd, environ: Mapping[str, str]
) -> None:
    """Show the card above the first prompt of somebody who has no key yet, where they can type one."""
    # a prompt that may be played from a recording needs no key
    plays = options.replay not in (None, "off") or environ.get("CELLWRIGHT_REPLAY", "off") not in ("", "off")
    if plays or options.format != "text" or not front_end.allows_input or not lacks_key(conversation, options):
        return
    if not conversation.in_force.settings.own_credentials:
        return  # the run says it
    with _shown_card() as say:
        _ask(conversation, say, lambda: not lacks_key(conversation, options))


def enter_key(conversation: Conversation, front_end: FrontEnd) -> None:
    """Ask for a key and keep it: `%claude login`. Raises `CellwrightError` where none can be typed or kept."""
    if not front_end.allows_input:
        message = "Nobody can type a key here. Enter it in a terminal with `cellwright auth login`."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if not conversation.in_force.settings.own_credentials:
        message = "The administrator's settings allow no keys of your own. Nothing was kept."
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
    address = visible_line(address_of(conversation.in_force.environment), 200)
    print(f"The key is tried at {address} and kept for you alone, outside the notebook. Keys: {KEYS_PAGE}")
    _ask(conversation, print, lambda: False)


@contextlib.contextmanager
def _shown_card() -> Iterator[Callable[[str], None]]:
    """Show the card while the question is open; what was said last takes its place."""
    from IPython.display import display

    said = ["No key was entered."]
    handle = display(_markdown(CARD), raw=True, display_id=True)

    def say(text: str) -> None:
        said.append(text)
        if handle is not None:
            handle.update(_markdown(f"{CARD}\n\n{text}"), raw=True)

    try:
        yield say
    finally:
        if handle is not None:
            handle.update(_markdown(said[-1]), raw=True)


def _markdown(text: str) -> dict[str, str]:
    # `Markdown` would fetch a text that begins with an address
    return {"text/markdown": text, "text/plain": text}


def _ask(conversation: Conversation, say: Callable[[str], None], is_settled: Callable[[], bool]) -> None:
    """Ask until a key is kept, nothing is typed, or it is settled elsewhere (in the panel)."""
    for _ in range(MAX_ATTEMPTS):
        try:
            text = getpass.getpass(_PROMPT)
        except EOFError:
            return
        if not text.strip() or is_settled():
            return
        try:
            say(_words(_kept(conversation, text)))
        except CellwrightError as error:
            say(error.message)
        else:
            return


def _kept(conversation: Conversation, text: str) -> KeptKey:
    settings, environment = conversation.in_force.settings, conversation.in_force.environment
    return conversation.thread.submit(
        try_and_keep(text, environment, helper=settings.api_key_helper, own_credentials=settings.own_credentials)
    ).future.result()


def _words(kept: KeptKey) -> str:
    if kept.overruled_by:
        return f"{kept.sentence} But {kept.overruled_by} goes before it here: take that away, and the key counts."
    return kept.sentence
