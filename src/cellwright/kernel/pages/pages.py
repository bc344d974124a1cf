"""The pages of a browser that show notebooks of this kernel, and requests in both directions.

Each page opens the comm `cellwright.notebook` (docs/protocol/notebook.md) and says which notebooks it shows, again
whenever that changes. Messages arrive on a subshell's thread, on ipykernel 6 on the main thread; requests are made
and served on the agent's loop. Nobody says when a page dies: it then does not answer.

JupyterLab says to its pages from where on disk their paths start, Jupyter Notebook does not.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cellwright.kernel.pages.comm import CommLink, PageError, reply_to


def relative_path(path: str) -> str:
    """The path without a drive: `RTC:folder/file` are the same files, in another way."""
    return path.partition(":")[2] if ":" in path.partition("/")[0] else path


def served_folder(root: str, paths: Sequence[str]) -> Path:
    """The folder that `paths` of a page start from: `root` where the page knows it, else what fits to this kernel.

    The server names the notebook that it starts a kernel for, and starts it in the notebook's folder or above.
    """
    if root:
        return Path(root).expanduser()
    started_for, here = os.environ.get("JPY_SESSION_NAME", ""), Path.cwd()
    relative = [relative_path(path) for path in paths]
    for path in relative:
        if path and started_for.endswith(f"/{path}"):
            return Path(started_for.removesuffix(path))
    for path in relative:
        for folder in (here, *here.parents):
            if path and (folder / path).is_file():
                return folder
    return here


PROTOCOL = 1
SERVER = "Jupyter Server"
"""The front end that is none: the server itself."""
ROUTES = ("page", "shared", "contents")
PING_SECONDS = 4.0


class PageGone(Exception):
    """The page was closed, or does not answer."""


class PageNotebook(NamedTuple):
    """A notebook that a page shows: `own` says that its kernel is this one."""

    path: Path
    served_path: str
    """As the page names it."""
    own: bool
    trusted: bool
    unsaved: bool
    session: str
    """The session that the messages of its own kernel connection carry."""
    route: str = "page"
    """The user's page, or at the server: the document that pages share ("shared"), what it has as a file ("contents")."""
    shared: bool = False
    """The page edits it together with others (jupyter-collaboration): what one of them writes, all have."""


class PageConnection:
    """One connection of one page. `session` is what its messages carry, those that run cells as well."""

    def __init__(self, session: str, link: CommLink) -> None:
        self.session = session
        self.link = link
        self.id = ""
        self.front_end = ""
        self.root = ""
        self.draws_key_card = False
        """It draws the field for a key in the card of a cell that waits for one."""
        self.notebooks: tuple[PageNotebook, ...] = ()
        self.last_hello = 0.0
        self.last_seen = 0.0
        self.silent = False
        """It did not answer; until it is heard from again it counts as closed."""

    def shows(self, path: Path) -> PageNotebook | None:
        return next((notebook for notebook in self.notebooks if notebook.path == path), None)

    def sent(self, session: str) -> bool:
        """Return whether it is the page that messages with this `session` come from."""
        return bool(session) and session in self.sessions

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions of the messages that come from the page."""
        return (self.session, *(notebook.session for notebook in self.notebooks))


Handler = Callable[[PageConnection, Mapping[str, Any]], Awaitable[Any]]
"""A handler of a page's requests of one method, on the agent's loop; raises PageError. The result is sent as JSON."""


class Pages:
    """All pages that are there. From any thread, but `request` and `answering`, which the agent's loop awaits.

    `loop` gives the agent's loop; it is called when a page wants something. `is_expected` says of a session whether a page
    with it is known to connect.
    """

    def __init__(
        self,
        loop: Callable[[], asyncio.AbstractEventLoop],
        is_expected: Callable[[str], bool] = lambda _: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._is_expected = is_expected
        self._clock = clock
        self._lock = threading.Lock()
        self._came = threading.Condition(self._lock)
        """Notified when a page has connected."""
        self._pages: list[PageConnection] = []
        self._handlers: dict[str, Handler] = {"ping": _pong, "key_later": self._key_later}
        self.key_later = threading.Event()
        """Set when the user wants no key now: the cell that waits for one need not."""
        self._followers: list[Callable[[PageConnection], Awaitable[None]]] = []
        self._waiting: dict[str, tuple[PageConnection, asyncio.Future[Any]]] = {}
        self._ids = itertools.count(1)
        self.preferred = ""
        """The session of the page that ran the newest prompt."""
        self.left = float("-inf")
        """When the last page went away that had been there alone: it may be reloading."""
        self._closed: dict[str, float] = {}
        """When the last page with messages of a session went away."""
        self.any_came = False
        """True when a page has connected since the extension was loaded: the front end is one of those that do."""

    def close(self) -> None:
        """End all connections."""
        for page in self.all():
            page.link.close()
            self._forget(page)

    def serve(self, method: str, handler: Handler) -> None:
        """Have `handler` answer the pages' requests of this method."""
        self._handlers[method] = handler

    def follow(self, listener: Callable[[PageConnection], Awaitable[None]]) -> None:
        """Have `listener` called, on the agent's loop, whenever a page has said what it shows."""
        self._followers.append(listener)

    def prefer(self, session: str) -> None:
        """Hold the page of this session for the one that the user is at: it has just run a cell."""
        self.preferred = session
        with self._lock:
            self._closed.pop(session, None)

    def all(self) -> list[PageConnection]:
        """The pages, the one that ran the newest prompt first, then those that spoke last."""
        with self._lock:
            pages = [page for page in self._pages if not page.silent]
        return sorted(pages, key=lambda page: (page.sent(self.preferred), page.last_hello), reverse=True)

    def showing(self, path: Path) -> list[PageConnection]:
        """Those that show the notebook at `path`, a real path; where its user looks at it comes first."""
        shown = [(page, notebook.route) for page in self.all() if (notebook := page.shows(path)) is not None]
        return [page for page, _ in sorted(shown, key=lambda each: ROUTES.index(each[1]))]

    async def answering(self, path: Path) -> PageConnection:
        """The first page that shows `path` and is alive. Raises PageGone."""
        for page in self.showing(path):
            if await self._is_there(page):
                return page
        raise PageGone

    def that_sent(self, session: str) -> PageConnection | None:
        """The page that messages with this `session` come from; None if it is not connected."""
        with self._lock:
            return self._that_sent(session)

    def expected(self, session: str) -> PageConnection | None:
        """The same, once it has connected: a page that is known to is waited for as long as for one that is asked.

        It connects on a subshell: without one, no page comes while this waits.
        """
        with self._came:
            if self._that_sent(session) is None and self._is_expected(session):
                self._came.wait_for(lambda: self._that_sent(session), PING_SECONDS)
            return self._that_sent(session)

    def _that_sent(self, session: str) -> PageConnection | None:
        return next((page for page in self._pages if not page.silent and page.sent(session)), None)

    async def _key_later(self, _page: PageConnection, _params: Mapping[str, Any]) -> None:
        self.key_later.set()

    async def of_user(self) -> PageConnection | None:
        """The user's page that ran the newest prompt, else the one that spoke last; None if none is alive."""
        for page in self.all():
            if page.front_end != SERVER and await self._is_there(page):
                return page
        return None

    async def _is_there(self, page: PageConnection) -> bool:
        # a page that was heard from so lately need not be asked whether it is there
        if self._clock() - page.last_seen < 2.0:
            return True
        try:
            await self.request(page, "ping", {}, PING_SECONDS)
        except PageGone:
            page.silent = True  # killed, or on a computer that sleeps
            return False
        return True

    def has_left(self, session: str) -> bool:
        """Return whether the front end connects its pages, and none that is there sends messages with this `session`."""
        with self._lock:
            return self.any_came and not any(page.sent(session) for page in self._pages)

    def was_closed(self, session: str) -> bool:
        """Return whether a page that sent messages with this `session` went away, and has not come back for a moment."""
        with self._lock:
            closed = self._closed.get(session)
            if closed is None or any(page.sent(session) for page in self._pages):
                return False
        # a page that only lost its connection is back by then, with the session that it had
        return self._clock() - closed >= 1.0

    def shared_notebook(self, session: str) -> Path | None:
        """The notebook of the kernel connection with this `session`, where its page edits it together with others."""
        with self._lock:
            shown = (notebook for page in self._pages if not page.silent for notebook in page.notebooks)
            return next((each.path for each in shown if each.shared and each.session == session), None)

    async def answers(self, session: str) -> bool:
        """Ask the page whose messages carry `session` whether it is there; one that never connected is taken to be."""
        with self._lock:
            page = next((page for page in self._pages if page.sent(session)), None)
            if page is None:
                return session not in self._closed
        try:
            await self.request(page, "ping", {}, PING_SECONDS)
        except PageGone:
            page.silent = True
            return False
        return True

    def is_reloading(self, seconds: float) -> bool:
        """Return whether the only page went away within so many seconds, as one does that is reloaded."""
        return self._clock() - self.left < seconds

    def may_come_back(self, path: Path, seconds: float) -> bool:
        """Return whether a page that is silent had unsaved changes of `path` when heard, so many seconds ago."""
        now = self._clock()
        with self._lock:
            return any(
                page.silent
                and now - page.last_seen < seconds
                and (shown := page.shows(path)) is not None
                and shown.unsaved
                for page in self._pages
            )

    async def request(self, page: PageConnection, method: str, params: Mapping[str, Any], timeout: float = 15.0) -> Any:
        """Ask `page` for something; its result. Raises PageError where it says no, PageGone after `timeout` seconds."""
        with self._lock:
            if page not in self._pages:
                raise PageGone
        request_id = f"k{next(self._ids)}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = page, answer
        try:
            # a page that sleeps reads it when it wakes, and another page may have been asked by then
            clock = {"sent": time.time(), "within": timeout}
            await page.link.send(
                {"type": "request", "id": request_id, "method": method, "params": dict(params), **clock}
            )
            return await asyncio.wait_for(answer, timeout)
        except TimeoutError:
            raise PageGone from None
        finally:
            del self._waiting[request_id]

    async def notify(self, method: str, params: Mapping[str, Any], pages: list[PageConnection] | None = None) -> None:
        """Ask all pages (or `pages`) for something without waiting for their answers."""
        for page in self.all() if pages is None else pages:
            await page.link.send({"type": "request", "id": "", "method": method, "params": dict(params)})

    def on_open(self, comm: Any, message: Mapping[str, Any]) -> None:
        """Take a page that has opened its comm."""
        hello = message["content"]["data"]
        link = CommLink(comm, hello)
        session = str(message["header"].get("session", ""))
        if hello.get("protocol") != PROTOCOL:
            comm.send({"type": "unsupported", "protocol": PROTOCOL})
            link.close()
            return
        page = PageConnection(session, link)
        comm.on_msg(lambda message: self._on_message(page, message["content"]["data"]))
        comm.on_close(lambda _: self._forget(page))
        self._hello(page, hello)
        with self._lock:
            # the same page, connected anew
            self._pages = [other for other in self._pages if (other.id, other.session) != (page.id, session)]
            self._pages.append(page)
            self.any_came = self.any_came or page.front_end != SERVER
            self.left = float("-inf")
            self._came.notify_all()
        comm.send({"type": "welcome", "protocol": PROTOCOL})

    def _on_message(self, page: PageConnection, piece: object) -> None:
        if not page.link.is_from_page(piece):
            return
        page.last_seen, page.silent = self._clock(), False
        message = page.link.joined(piece)
        if message is None:
            return
        match message:
            case {"type": "hello"}:
                self._hello(page, message)
            case {"type": "bye"}:
                self._forget(page)
                if message.get("page_left") is True and not self.all():
                    self.left = self._clock()
            case {"type": "reply", "id": str(request_id)}:
                self._on_reply(request_id, message)
            case {"type": "request", "id": str(request_id), "method": str(method), "params": dict(params)}:
                # the handlers are there when the loop is
                asyncio.run_coroutine_threadsafe(self._served(page, request_id, method, params), self._loop())

    def _hello(self, page: PageConnection, hello: Mapping[str, Any]) -> None:
        """The page says what it shows. What makes no sense is passed over."""
        root, front_end, shown = hello.get("root"), hello.get("front_end"), hello.get("notebooks")
        page.root = root if isinstance(root, str) else ""
        page.id = str(hello.get("page", ""))
        page.front_end = front_end[:100] if isinstance(front_end, str) else ""
        page.draws_key_card = hello.get("draws_key_card") is True
        notebooks = [each for each in shown[:200] if _has_path(each)] if isinstance(shown, list) else []
        own_first = sorted(notebooks, key=lambda each: each.get("own") is not True)
        folder = served_folder(page.root, [each["path"] for each in own_first])
        page.notebooks = tuple(_notebook(folder, each) for each in notebooks)
        page.last_hello = page.last_seen = self._clock()
        for follower in self._followers:
            asyncio.run_coroutine_threadsafe(_awaited(follower(page)), self._loop())

    def _on_reply(self, request_id: str, message: Mapping[str, Any]) -> None:
        found = self._waiting.get(request_id)
        if found is None:
            return  # it came too late
        _, answer = found

        def settle() -> None:
            if answer.done():
                return
            error = message.get("error")
            if isinstance(error, dict):
                code, text = str(error.get("code", "")), str(error.get("message", ""))
                answer.set_exception(PageError(code, text, error.get("details")))
            else:
                answer.set_result(message.get("result"))

        answer.get_loop().call_soon_threadsafe(settle)

    async def _served(self, page: PageConnection, request_id: str, method: str, params: Mapping[str, Any]) -> None:
        handler = self._handlers.get(method)
        reply = await reply_to(method, None if handler is None else functools.partial(handler, page, params))
        await page.link.send({"type": "reply", "id": request_id, **reply})

    def _forget(self, page: PageConnection) -> None:
        with self._lock:
            if page in self._pages:
                self._pages.remove(page)
            for session in filter(None, page.sessions):
                self._closed[session] = self._clock()
            # sessions of closed pages that are remembered
            while len(self._closed) > 200:
                del self._closed[next(iter(self._closed))]
        for of_page, answer in list(self._waiting.values()):
            if of_page is page:
                answer.get_loop().call_soon_threadsafe(_give_up, answer)
        page.link.forget()


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _give_up(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(PageGone())


async def _pong(_page: PageConnection, _params: Mapping[str, Any]) -> None:
    """The page asks whether the kernel is there."""


def _has_path(notebook: object) -> bool:
    path = notebook.get("path") if isinstance(notebook, dict) else None
    return isinstance(path, str) and path != "" and "\0" not in path


def _notebook(folder: Path, described: Mapping[str, Any]) -> PageNotebook:
    real = Path(os.path.realpath(folder / relative_path(described["path"])))
    own, trusted, unsaved = (described.get(name) is True for name in ("own", "trusted", "unsaved"))
    route = described.get("route")
    return PageNotebook(
        real,
        described["path"],
        own,
        trusted,
        unsaved,
        str(described.get("session", "")),
        route if isinstance(route, str) and route in ROUTES else "page",
        described.get("shared") is True,
    )
