"""What a prompt mentions is found in its words, read by Claude's tools, and told with it."""

from __future__ import annotations

import asyncio
import gc
import io
import re
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from PIL import Image

from cellwright.agent.hooks.callbacks import HookMatcher
from cellwright.agent.prompt import ContextItems, ContextProvider, FullPrompt, PromptContext
from cellwright.conversation.core import Host
from cellwright.conversation.feature import gather_context
from cellwright.conversation.mentions import find_mentions
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import ContextAttached, Event, Notice, RunEnd, ToolEnd, UserPrompt
from cellwright.features.conversation import Conversation
from cellwright.markdown.prose import without_code
from cellwright.terminal.views.plain_view import CallLines
from cellwright.testing import MessagesServer, say, turn, use
from row_tables import for_each_row


@for_each_row(
    ("words", "found"),
    [
        ("look at @src/a.py and @b.txt.", ["file src/a.py", "file b.txt"]),
        ('@"a b.txt"#L10-20 and @a\\ b.txt', ["file a b.txt 10-20", "file a b.txt"]),
        ("@a.py#L5, @a.py#L5-L9; @a.py's", ["file a.py 5-5", "file a.py 5-9", "file a.py"]),
        ("(@notes.md) [@x.md] “@y.md” *@z.md*", ["file notes.md", "file x.md", "file y.md", "file z.md"]),
        ("@../up.txt @/etc/hosts @./x @dir/", ["file ../up.txt", "file /etc/hosts", "file ./x", "file dir/"]),
        ("@cell:3 @cell:ab-12. (@cell:q) @cell:[7]", ["cell 3", "cell ab-12", "cell q", "cell [7]"]),
        ("why is $total wrong? $df['a'], $y.col", ["variable total", "variable df", "variable y"]),
        ("$df and $df again, @a.py and @a.py", ["variable df", "file a.py"]),
        # e-mail, decorators, calls, patches, matrices
        ("mail me@x.com or a.b@c.org", []),
        ("@app.route('/x')\ndef f(): pass", []),
        ("@property\ndef g(self): ...\n    @cached\n    class X: ...", []),
        ("use @app.route('/') here", []),
        ("@@ -1,3 +1,3 @@\na @ b, a@b", []),
        # code
        ("`@x.py $df` and ``@y.py``", []),
        ("```python\n@z.py $df\n```\n@w.py", ["file w.py"]),
        ("~~~\n@z.py\n```\n~~~\n$w", ["variable w"]),
        ("```\n@never.closed $df", []),
        ("- ```python\n  @z.py\n\n  $df\n  ```\n  @w.py", ["file w.py"]),
        ("1. first\n\n    ```\n    @z.py\n    ```\n2. @w.py", ["file w.py"]),
        ("> ```\n> @z.py\n\n@w.py", ["file w.py"]),
        ("``a ` @z.py`` @w.py", ["file w.py"]),
        ("`over\n> @z.py` @w.py", ["file z.py", "file w.py"]),
        ("> `over\n> @z.py` @w.py", ["file w.py"]),
        ("- 1 `$df\n  @z.py` and $k", ["variable k"]),
        ("\\`@z.py and ` $df`", ["file z.py"]),
        ("no code: ` @z.py\n\nnor ` @w.py", ["file z.py", "file w.py"]),
        ("```\r\n@z.py\r\n```\r\n@w.py", ["file w.py"]),
        ("look:\n\n    @w.py", ["file w.py"]),
        ("# `@z.py` #\n@w.py `$df`\n===", ["file w.py"]),
        # money, math, shell
        ("$5 and $x$ and $x + y$ then $df", ["variable df"]),
        ("$$ \\sum_x $n $$ and $k", ["variable k"]),
        ("compare $a,$b", ["variable a", "variable b"]),
        ("what is $größe, $α_1?", ["variable größe", "variable α_1"]),
        ("US$k ${z} \\$k a$b $$", []),
    ],
)
def test_mentions_in_words(words: str, found: list[str]) -> None:
    lines = {True: lambda m: f" {m.first}-{m.last}", False: lambda m: ""}
    assert [f"{m.kind} {m.name}{lines[bool(m.first)](m)}" for m in find_mentions(words)] == found


def test_a_long_text_without_mentions_takes_no_time_and_many_mentions_have_an_end() -> None:
    assert (
        find_mentions("$a @b " * 3 + " ".join(f"@file{number}.txt" for number in range(500)))[-1].name == "file47.txt"
    )
    assert find_mentions("`" * 5_000 + "$" * 5_000 + "@" * 5_000 + "word " * 20_000) == []


@settings(derandomize=True, deadline=None, max_examples=500)
@given(st.text(alphabet="`~a$ \n\t>-1.#\\<", max_size=60))
def test_what_commonmark_calls_code_is_blank_and_all_else_stays(words: str) -> None:
    left = without_code(words)
    assert len(left) == len(words)
    assert all(was == now or (now == " " and was != "\n") for was, now in zip(words, left, strict=True))
    commonmark = MarkdownIt("commonmark").disable(["code", "html_block", "reference", "link", "image"])
    code = "".join(
        each.content + each.info
        for token in commonmark.parse(words)
        for each in (token, *(token.children or ()))
        if each.type in ("fence", "code_inline")
    )
    assert left.count("a") == words.count("a") - code.count("a")


class Talk:
    """A conversation in a folder with files; each prompt is answered by a word."""

    def __init__(self, server: MessagesServer, cwd: Path) -> None:
        self.server = server
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "HOME": str(cwd)}
        self.conversation = Conversation(Host(cwd=cwd, interface="a test", environ=environ))
        self.events: list[Event] = []

    def say(self, prompt: Any, *, context: tuple[ContextProvider, ...] = (), **options: Any) -> RunEnd:
        self.events.clear()
        task = self.conversation.start(
            RunRequest(prompt=prompt, options=RunOptions(**options), context=context), RunSurface(self.events.append)
        )
        self.conversation.jobs.work_until_done(task)
        end = task.result()
        assert end.error is None, end.error
        return end

    @property
    def notices(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Notice)]

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The content of the newest prompt as it was sent, without where Claude works."""
        content = next(m["content"] for m in reversed(self.server.requests[-1].body["messages"]) if m["role"] == "user")
        return [block for block in content if not block.get("text", "").startswith("<environment>")]

    @property
    def told(self) -> list[tuple[str, str]]:
        (event,) = (event for event in self.events if isinstance(event, ContextAttached))
        return [(part.kind, part.title) for part in event.parts if part.kind != "environment"]


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("".join(f"line_{number} = {number}\n" for number in range(1, 21)))
    (project / "two words.txt").write_text("hello\n")
    made = Talk(messages_server([say("Yes.")] * 4), project)
    yield made
    made.conversation.close()
    assert made.server.rejected == []


def test_a_file_goes_with_the_prompt_and_counts_as_read(talk: Talk) -> None:
    talk.say("What is @a.py?")
    words, attached = talk.sent
    assert words["text"] == "What is @a.py?"
    assert attached["text"].startswith('<attached mention="@a.py"')
    assert "\tline_1 = 1\n" in attached["text"]
    assert attached["text"].endswith("</attached>")
    assert talk.told == [("file", "a.py")]
    assert next(event.prompt for event in talk.events if isinstance(event, UserPrompt)) == "What is @a.py?"


def test_lines_of_a_file(talk: Talk) -> None:
    talk.say('@a.py#L5-6 and @"two words.txt"')
    _, lines, other = talk.sent
    assert "     5\tline_5 = 5\n     6\tline_6 = 6" in lines["text"]
    assert "line_4" not in lines["text"]
    assert "line_7" not in lines["text"]
    assert "hello" in other["text"]
    assert talk.told == [("file", "a.py:5-6"), ("file", "two words.txt")]


def test_a_folder_is_listed_and_a_picture_is_seen(talk: Talk) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(picture, "PNG")
    (talk.conversation.cwd / "plot.png").write_bytes(picture.getvalue())
    talk.say("@plot.png in @./")
    _, *rest = talk.sent
    assert [block["type"] for block in rest] == ["text", "text", "image", "text", "text"]
    assert "two words.txt" in rest[-1]["text"]
    (event,) = (event for event in talk.events if isinstance(event, ContextAttached))
    picture_part = next(part for part in event.parts if part.title == "plot.png")
    assert "[a picture]" in picture_part.text
    assert picture_part.tokens > picture_part.chars / 4


def test_what_is_not_there_stays_text_and_is_said(talk: Talk) -> None:
    talk.say("see @nothing.txt, @src/none.py, and ask @anna")
    assert [block["text"] for block in talk.sent] == ["see @nothing.txt, @src/none.py, and ask @anna"]
    assert [notice.partition(": no such")[0] for notice in talk.notices] == ["@nothing.txt", "@src/none.py"]


def test_rules_hold_for_what_is_mentioned(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("not here\n")
    (talk.conversation.cwd / ".env").write_text("KEY=not-this\n")
    talk.say("@../outside.txt @.env @a.py", deny=("Read(./.env)",))
    assert [block["text"].split("\n")[0] for block in talk.sent[1:]] == ['<attached mention="@a.py" what="a.py">']
    outside, denied = talk.notices
    assert outside.startswith("@../outside.txt: not")
    assert outside.endswith("to read it.")
    assert denied.startswith("@.env: not attached.")
    assert "not here" not in str(talk.server.requests[-1].body)
    assert "not-this" not in str(talk.server.requests[-1].body)


def test_binary_data_is_not_attached_and_a_long_file_is_cut(talk: Talk) -> None:
    (talk.conversation.cwd / "data.bin").write_bytes(bytes(range(256)) * 10)
    (talk.conversation.cwd / "long.txt").write_text("0123456789" * 9 + "\n" + "x" * 80 + "\n" * 1 + "y" * 70 * 1_000)
    talk.say("@data.bin @long.txt")
    (notice,) = talk.notices
    assert notice.startswith("@data.bin:")
    assert "binary data" in notice
    (_, attached) = talk.sent
    assert len(attached["text"]) < 61_000


def test_blocks_from_a_program_mention_nothing(talk: Talk) -> None:
    talk.say([{"type": "text", "text": "@a.py"}])
    assert [block["text"] for block in talk.sent] == ["@a.py"]


def test_without_tools_files_can_be_mentioned_all_the_same(talk: Talk) -> None:
    talk.say("@a.py", builtin_tools=False)
    assert "line_1 = 1" in talk.sent[1]["text"]


def test_a_mentioned_file_may_be_changed_at_once(
    messages_server: Callable[..., MessagesServer], tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    edit = use("Edit", file_path="a.py", old_string="x = 1", new_string="x = 2")
    talk = Talk(messages_server([turn(edit), say("Done.")]), tmp_path)
    talk.say("change @a.py", mode="acceptEdits")
    (end,) = (event for event in talk.events if isinstance(event, ToolEnd))
    assert end.status == "success"
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    talk.conversation.close()


def test_hooks_hear_the_words_alone_and_what_they_add_is_told(talk: Talk) -> None:
    heard: list[str] = []

    async def add(said: Any, _tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        heard.append(said["prompt"])
        more = {"hookEventName": "UserPromptSubmit", "additionalContext": "It is Monday."}
        return {"hookSpecificOutput": more}

    talk.say("What is @a.py?", hooks={"UserPromptSubmit": [HookMatcher(None, [add])]}, mode="plan")
    assert heard == ["What is @a.py?"]
    assert talk.told == [("file", "a.py"), ("mode", "Plan mode"), ("hook", "Hooks")]
    assert "It is Monday." in talk.sent[-1]["text"]
    assert talk.sent[0]["text"] == "What is @a.py?"


def test_what_a_terminal_says_of_it_is_one_line(talk: Talk) -> None:
    out = io.StringIO()
    view = CallLines(out)
    talk.say("@a.py and @./ and @two\\ words.txt")
    for event in talk.events:
        view.emit(event)
    lines = out.getvalue().splitlines()
    (told,) = (line for line in lines if line.startswith("Context sent: "))
    assert re.fullmatch(r"Context sent: a\.py, \., two words\.txt \([\d,]+ tokens\)", told)


def test_a_terminal_says_nothing_of_what_every_session_is_told(talk: Talk) -> None:
    out = io.StringIO()
    view = CallLines(out)
    talk.say("hello")
    for event in talk.events:
        view.emit(event)
    assert "Attached" not in out.getvalue()


def test_a_mistake_of_ours_does_not_keep_the_prompt_from_being_sent(talk: Talk) -> None:
    async def broken(_moment: PromptContext) -> ContextItems:
        raise ZeroDivisionError("our mistake")

    talk.say("hello @a.py", context=(broken,))
    assert talk.told == [("file", "a.py")]
    assert ["ZeroDivisionError: our mistake" in notice for notice in talk.notices] == [True]


def test_nothing_is_left_unawaited_when_a_run_is_stopped_at_its_first_step() -> None:
    called: list[str] = []

    async def waits(_moment: PromptContext) -> ContextItems:
        return ContextItems()

    def provider(moment: PromptContext) -> Awaitable[ContextItems]:
        called.append("asked")
        return waits(moment)

    async def stopped() -> None:
        any_moment: Any = None
        collect = gather_context(FullPrompt(words=()), [provider, provider], any_moment).collect_context
        assert collect is not None
        task = asyncio.create_task(collect())
        await asyncio.sleep(0)  # the providers are asked, and what they gave has not begun
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        asyncio.run(stopped())
        gc.collect()
    assert called == ["asked", "asked"]
    assert [str(each.message) for each in heard if issubclass(each.category, RuntimeWarning)] == []


BRACKETED = (
    "app/[slug]/page.tsx",
    "app/[[...rest]]/x.tsx",
    "app/(shop)/y.tsx",
    "app/{a,b}/c.tsx",
    "[id]/z.tsx",
    "(g)/q.tsx",
)


def test_a_mention_is_the_longest_path_that_exists(talk: Talk) -> None:
    for name in (*BRACKETED, "app/plain/x.tsx", "data.csv", "#1.txt"):
        path = talk.conversation.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"HOLDS {name}\n")
    talk.say("compare " + ", ".join(f"@{name}" for name in BRACKETED) + " and @app/[slug]/page.tsx#L1.")
    text = "\n".join(block["text"] for block in talk.sent[1:])
    assert [name for name in BRACKETED if f"HOLDS {name}" not in text] == []
    assert talk.told == [("file", name) for name in BRACKETED] + [("file", "app/[slug]/page.tsx:1-1")]
    assert talk.notices == []


def test_what_is_attached_in_place_of_what_was_written_is_said(talk: Talk) -> None:
    folder = talk.conversation.cwd / "app"
    folder.mkdir()
    (folder / "x.py").write_text("x = 1\n")
    talk.say("see @app/[slug]/x, @app's files, and @none/[slug]/x")
    assert talk.told == [("folder", "app")]
    assert ["folder app" in notice for notice in talk.notices] == [True, False]
