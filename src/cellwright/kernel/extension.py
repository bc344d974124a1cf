"""`%load_ext cellwright` and `%unload_ext cellwright`: what is put into the shell, and taken out again.

Loading registers names and leaves the work to a thread in the background: it may cost next to nothing.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from cellwright.errors import CellwrightError, ErrorCode, log_fault
from cellwright.features.process_conversation import register, starting_up, unregister
from cellwright.kernel import library_imports
from cellwright.kernel.magic.input_rewrite import Rewriting
from cellwright.kernel.magic.magics import ClaudeMagic, ToldError, ToldInterrupt, show_nothing
from cellwright.kernel.magic.options import Claude
from cellwright.kernel.namespace.cell_log import CellLog
from cellwright.kernel.pages.comm_targets import ChatTarget, NotebookTarget, OpenDocuments
from cellwright.kernel.run.ipykernel_api import ExecutionCountMender, reply_by_stream
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.conversation import NotebookConversation

MAGIC = "claude"
NAME = "cellwright"
PAGE_LOADS = f'get_ipython().extension_manager.load_extension("{NAME}")'
"""The code by which a page has the extension loaded: `labextension/src/transport/load_extension.ts`."""

_LOADS = lazy_pattern(rf"(?<![\w])load_ext\b[^\n]*\b{NAME}\b")


class FirstLoad:
    """The user's first `%load_ext cellwright` of a kernel in which a page, or IPython's start, loaded the extension before.

    IPython would say that it "is already loaded", to somebody who did not load it. While such a cell runs, IPython does not
    list the extension: it loads it again, which does nothing. From then on the line is said, since it is true.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._is_said = False
        self._is_hidden = False

    def watch(self) -> None:
        self._shell.events.register("pre_run_cell", self._before)
        self._shell.events.register("post_run_cell", self._after)

    def stop(self) -> None:
        self._shell.events.unregister("pre_run_cell", self._before)
        self._shell.events.unregister("post_run_cell", self._after)

    @property
    def _loaded(self) -> set[str]:
        """The names of the extensions that IPython lists as loaded."""
        return cast("set[str]", cast("Any", self._shell).extension_manager.loaded)

    def _before(self, info: ExecutionInfo) -> None:
        if not self._is_said and NAME in self._loaded and _LOADS.search(info.raw_cell or ""):
            self._loaded.discard(NAME)
            self._is_hidden = True

    def _after(self, result: ExecutionResult) -> None:
        if self._is_hidden:
            self._is_hidden = False
            self._is_said = NAME in self._loaded
            self._loaded.add(NAME)  # the cell may have failed before that line
        elif result.info is not None and _LOADS.search(result.info.raw_cell or ""):
            self._is_said = True  # the cell that loaded it


class Extension:
    """The extension in one shell, from `load` to `unload`."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._config = Claude(parent=shell)
        self._rewriting = Rewriting(shell)
        self._magic = ClaudeMagic(self, self._config)
        self._documents = OpenDocuments()
        self._reply_count = ExecutionCountMender(shell)
        self._first_load = FirstLoad(shell)
        self._notebooks = NotebookTarget(lambda: self.conversation().conversation.thread.loop)
        self._chat = ChatTarget(self._make_chat)
        self.cells = CellLog(shell)
        self._making = threading.Lock()
        self._conversation: NotebookConversation | None = None
        self._warming_up = threading.Thread(target=self._warm_up, name="cellwright-warm-up", daemon=True)
        self._stop_log: Callable[[], None] = lambda: None
        self._unloaded = False

    @property
    def _configurables(self) -> list[Any]:
        """The objects `%config` knows; IPython's annotation is narrower than its use."""
        return cast("list[Any]", self._shell.configurables)

    def load(self) -> None:
        self._rewriting.install()
        self._reply_count.install()
        self.cells.start()
        self._first_load.watch()
        self._shell.events.register("pre_execute", self._expect_page)
        self._expect_page()  # the request that loads the extension now has begun before
        self._configurables.append(self._config)
        self._shell.magics_manager.register_function(self._magic.claude, "line_cell", MAGIC)
        register(self.conversation)
        if not self._shell.custom_exceptions:  # the user's own handling goes first
            self._shell.set_custom_exc((ToldError, ToldInterrupt), show_nothing)
        if (kernel := getattr(self._shell, "kernel", None)) is not None:
            reply_by_stream(kernel)
            self._chat.open()
            self._notebooks.open()  # before the last: pages connect when they hear of that
            self._documents.open(kernel)
        self._warming_up.start()

    def unload(self) -> None:
        self._unloaded = True  # what warms up ends, and is waited for: it may be making the conversation
        self._warming_up.join()
        if self._conversation is not None:
            try:
                self._conversation.refuse_agent_code()
            except CellwrightError:
                self._unloaded = False
                raise
            if self._shell.has_trait("exit_now"):
                self._shell.unobserve(self._on_exit_now, "exit_now")
        self._rewriting.remove()
        self._reply_count.remove()
        self.cells.stop()
        self._first_load.stop()
        self._shell.events.unregister("pre_execute", self._expect_page)
        self._configurables.remove(self._config)
        for kind in ("line", "cell"):
            del self._shell.magics_manager.magics[kind][MAGIC]
        unregister(self.conversation)
        if self._shell.custom_exceptions == (ToldError, ToldInterrupt):
            self._shell.set_custom_exc((), None)
        # whatever does not come to its end: who reloads us needs the magics again
        with contextlib.ExitStack() as closing:
            if self._conversation is not None:
                closing.callback(self._stop_log)
                closing.push(_log_fault)
                closing.callback(self._conversation.close)
            closing.callback(self._documents.close)
            if getattr(self._shell, "kernel", None) is not None:
                closing.callback(self._notebooks.close)
                closing.callback(self._chat.close)

    def conversation(self) -> NotebookConversation:
        """This kernel's conversation; made when it is first needed. Raises `CellwrightError` for broken settings."""
        with self._making:
            if self._conversation is None:
                # everything heavy hangs on it
                with _naming_hidden_libraries():
                    from cellwright.kernel.conversation import NotebookConversation, keep_log

                self._conversation = NotebookConversation(
                    self._shell, self._config, self._documents.is_unsaved, self.cells, self._notebooks.pages()
                )
                self._stop_log = keep_log(self._conversation.conversation)
                _before_threads_end(self._at_exit)
                if self._shell.has_trait("exit_now"):
                    # a kernel's shutdown ends its children first: a run would take that for a result, and ask on
                    self._shell.observe(self._on_exit_now, "exit_now")
            return self._conversation

    def _expect_page(self) -> None:
        """A page has the extension loaded, unseen, before each cell that asks Claude: it connects while that cell runs."""
        if (kernel := getattr(self._shell, "kernel", None)) is None:
            return
        request = kernel.get_parent("shell")
        content = request.get("content", {})
        if content.get("silent") and content.get("code") == PAGE_LOADS:
            self._notebooks.expect(request["header"]["session"])

    def _make_chat(self) -> Chat:
        # for those who have a panel
        from cellwright.kernel.chat.chat import Chat
        from cellwright.kernel.chat.requests import serve_requests

        chat = Chat(self.conversation(), self._config)
        chat.on_loop(serve_requests, chat)
        return chat

    def _on_exit_now(self, change: Mapping[str, object]) -> None:
        if change["new"]:
            self._at_exit()

    def _at_exit(self) -> None:
        # the server gives a kernel five seconds
        if self._conversation is not None and not self._unloaded:
            self._conversation.end_runs()

    def _warm_up(self) -> None:
        with starting_up():
            try:
                conversation = self.conversation()
            except CellwrightError:
                return  # the first prompt says it, where the user can read it
            if not self._unloaded:
                conversation.warm_up()


def _log_fault(_kind: object, error: BaseException | None, _traceback: object) -> bool:
    if not isinstance(error, Exception):
        return False

    log_fault(logging.getLogger(__name__), "unloading did not end everything", error=error)
    return True


def _before_threads_end(call: Callable[[], None]) -> None:
    """Call `call` when the process ends, while runs can still use worker threads to come to their end."""
    import concurrent.futures.thread  # noqa: F401  what ends the workers is registered by its import, and called after this

    # `atexit` comes too late: by then no worker takes anything
    threading._register_atexit(call)  # type: ignore[attr-defined]


@contextlib.contextmanager
def _naming_hidden_libraries() -> Iterator[None]:
    """Explain an import that fails because a file of the user's was imported in a library's place."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        finder = library_imports.installed()
        if finder is None or not (hidden := finder.hidden_libraries()):
            raise
        files = "; ".join(f"{file} was imported in place of the library {name}" for name, file in hidden)
        message = f"Cellwright cannot start: {files}. Rename the file and restart the kernel. ({error})"
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message) from error


def load(shell: InteractiveShell) -> None:
    """Put Cellwright into `shell`; a second time it does nothing."""
    if _extension_of(shell) is None:
        Extension(shell).load()


def unload(shell: InteractiveShell) -> None:
    """Take Cellwright out of `shell` and end what it started."""
    if (extension := _extension_of(shell)) is not None:
        extension.unload()
        if "cellwright.kernel.widgets.transcript" in sys.modules:
            from cellwright.kernel.widgets.transcript import close_all  # there only if a cell showed something

            close_all()


def _extension_of(shell: InteractiveShell) -> Extension | None:
    magic = getattr(shell.find_cell_magic(MAGIC), "__self__", None)
    owner = magic.extension if isinstance(magic, ClaudeMagic) else None
    return owner if isinstance(owner, Extension) else None
