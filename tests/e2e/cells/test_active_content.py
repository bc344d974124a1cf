"""What a model or a tool says is shown where outputs are trusted, and nothing of it runs or is loaded from anywhere.

The payloads of `markdown_payloads.py`, whole and cut at each character: in the widget, the saved output, exports,
nbconvert's pages, the panel's list of sessions, and a question's card.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab_tab import opened_page
from nbconvert import HTMLExporter
from nbformat.sign import NotebookNotary
from playwright.sync_api import expect

from cellwright.commands.completion import file_mention
from cellwright.events import Call, RunEnd, TextDelta, TodosChanged, ToolEnd, ToolStart, TurnEnd
from cellwright.kernel.output.saved_markdown import SavedTranscript
from cellwright.kernel.output.saved_ops import TRANSCRIPT
from cellwright.markdown.safe_markdown import safe_markdown
from cellwright.sessions.export import exchanges_of, markdown_pieces, notebook_pieces
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder
from cellwright.testing import say, turn, use
from markdown_payloads import HOST, PAYLOADS, RUN, cuts

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

RENDERER_FILE = Path(__file__).parents[3] / "src/cellwright/kernel/widgets/static/transcript.js"
NBCONVERTS_OWN = "https://cdnjs.cloudflare.com/"

ACTIVE = """([inside, ours]) => {
    const active = /^(script|iframe|object|embed|link|meta|base|form|video|audio|svg|math|style)$/;
    const found = window.__pwned === undefined ? [] : ['window.__pwned is set'];
    const look = (root) => {
        for (const node of root.querySelectorAll('*')) {
            if (node.shadowRoot) look(node.shadowRoot);
            const name = node.localName;
            const own = node.closest('.jp-OutputPrompt, .jp-Toolbar, svg, mjx-container');
            if (!own && active.test(name)) found.push(name);
            if (name === 'img' && !node.src.startsWith('data:')) found.push(`img ${node.src}`);
            for (const {name: attribute, value} of node.attributes) {
                if (attribute.startsWith('on')) found.push(`${name} ${attribute}`);
                const link = attribute === 'href' && !own && !/^(https?:|mailto:|#)/i.test(value) && !value.startsWith(ours);
                if (link && /^[a-z+.-]*:|^[\\\\/]|\\.\\./i.test(value)) found.push(`href ${value}`);
                if (attribute === 'style' && /url|image-set|expression/.test(value)) found.push(`style ${value}`);
            }
        }
    };
    const roots = document.querySelectorAll(inside);
    if (roots.length === 0) found.push('there is nothing to look at');
    roots.forEach(look);
    return [...new Set(found)].slice(0, 20);
}"""
"""What is active in the elements that `inside` selects."""


class Watch:
    """Notes what a page asks for, and every dialog."""

    def __init__(self, page: Any, *allowed: str) -> None:
        self.page = page
        self.allowed = ("data:", "blob:", "about:", *allowed)
        self.noticed: list[str] = []
        page.on("request", self._requested)
        page.on("dialog", self._asked)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith(self.allowed):
            self.noticed.append(request.url)

    def _asked(self, dialog: Any) -> None:
        self.noticed.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def end(self) -> list[str]:
        self.page.remove_listener("request", self._requested)
        self.page.remove_listener("dialog", self._asked)
        return self.noticed


def saved_run(texts: list[str]) -> str:
    """The saved output of a run in which Claude and its tools say each of `texts` wherever they can."""
    saved = SavedTranscript()
    for number, text in enumerate(texts):
        use = {"type": "tool_use", "id": str(number), "name": "Edit", "input": {}}
        saved.emit(TextDelta(text, number))
        saved.emit(TurnEnd({"role": "assistant", "content": []}, "tool_use", {}, "m"))
        saved.emit(ToolStart((Call(use, text),)))
        display = {"diff": text, "plan": text, "answers": {text: text}}
        saved.emit(ToolEnd(str(number), "Edit", "error", text, 1.0, display, {"code": "X", "message": text}))
    saved.emit(TodosChanged(tuple({"content": text, "status": "pending", "activeForm": text} for text in texts)))
    saved.emit(RunEnd("error", "", {}, 0.0, 1.0, 1, 1, 0, error={"code": "X", "message": " ".join(texts)[:5_000]}))
    return saved.markdown()


def foreign_transcript(texts: list[str]) -> dict[str, Any]:
    """A transcript as somebody else may put it into a notebook: each of `texts` wherever there is a text, and more."""
    op: list[Any] = [{"op": "run", "model": texts[0], "mode": texts[0], "session": "s", "started": 0, "onload": RUN}]
    for number, text in enumerate(texts):
        name = f"t{number}"
        use = {"id": name, "name": text[:60], "title": text, "parallel": False, "estimate": None, "at": 0}
        op += [
            {"op": "text", "block": number, "text": text, "html": text},
            {"op": "thinking", "block": 1_000 + number, "text": text, "at": 0},
            {"op": "tool", **use, "input": {text: text, "__proto__": {"x": text}, "file_path": [text, {"a": text}]}},
            {
                "op": "tool_end",
                "id": name,
                "status": "error",
                "ms": 1,
                "result": text,
                "diff": text,
                "error": {"code": text, "message": text},
            },
            {"op": "display", "id": name, "data": {"text/html": text, "image/svg+xml": text, "image/png": text}},
            {"op": "notice", "level": "error", "text": text},
            {"op": text, "id": name},
            {
                "op": "told",
                "tokens": 1,
                "parts": [{"title": text, "kind": text, "text": text, "chars": 1, "tokens": 1}],
            },
        ]
    todos = [{"content": text, "status": "in_progress", "activeForm": text} for text in texts]
    op += [{"op": "todos", "todos": todos}, None, 5, [], {"op": "end", "stop_reason": texts[0], "error": texts[0]}]
    return {"version": 1, "part": 0, "last": True, "ops": op, "run": {"toString": RUN}}


UNFOLD = """() => document.querySelectorAll('.cellwright-answer > div').forEach((host) =>
    host.shadowRoot.querySelectorAll('details').forEach((each) => { each.open = true; }))"""


def batches(texts: list[str], size: int) -> list[list[str]]:
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def messages() -> list[dict[str, Any]]:
    """A conversation of payloads, as it is in memory."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": payload} for payload in PAYLOADS]
    calls = [
        {"type": "tool_use", "id": str(number), "name": name, "input": {key: payload}}
        for number, payload in enumerate(PAYLOADS)
        for name, key in [("Bash", "command") if number % 2 else (payload[:40], "path")]
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": payload}
        for call, payload in zip(calls, PAYLOADS, strict=True)
    ]
    return [
        {"role": "user", "content": "\n\n".join(PAYLOADS)},
        {"role": "assistant", "content": [*blocks, *calls]},
        {"role": "user", "content": results},
    ]


def notebook_of(outputs: list[str], transcripts: Sequence[list[str]] = ()) -> nbformat.NotebookNode:
    """A notebook whose cells hold these as their output, the last ones transcripts of these texts."""
    cells = []
    for number, markdown in enumerate(outputs):
        output = nbformat.v4.new_output("display_data", {"text/markdown": markdown, "text/plain": "a run"})
        cells.append(nbformat.v4.new_code_cell("", outputs=[output], id=f"cell-{number}"))
    for number, texts in enumerate(transcripts):
        data = {TRANSCRIPT: foreign_transcript(texts), "text/markdown": "its Markdown"}
        output = nbformat.v4.new_output("display_data", data)
        cells.append(nbformat.v4.new_code_cell("", outputs=[output], id=f"transcript-{number}"))
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


CONTROL = f"<img src=https://{HOST}/control>"


def test_saved_outputs_are_only_shown_in_jupyterlab(page, tab, lab, notebook_at, choose):
    """They are trusted there, which the first cell shows: what it holds is HTML, and is loaded."""
    choose("@jupyterlab/notebook-extension:tracker", windowingMode="none")
    every_cut = sorted({safe_markdown(cut) for payload in PAYLOADS for cut in cuts(payload)})
    runs = map(saved_run, batches(list(PAYLOADS), 40))
    outputs = [CONTROL, *runs, *("\n\n".join(batch) for batch in batches(every_cut, 500))]
    folder = lab.root / "payloads"
    folder.mkdir(exist_ok=True)
    path = folder / "notebook.ipynb"
    transcripts = batches(list(PAYLOADS), 40)
    nbformat.write(notebook_of(outputs, transcripts), path)
    NotebookNotary(data_dir=str(lab.home / ".local/share/jupyter")).sign(nbformat.read(path, 4))
    watch = Watch(page, lab.url, lab.url.replace("http", "ws"))
    notebook_at(str(path.relative_to(lab.root))).open()
    rendered = page.locator(".jp-OutputArea-output.jp-RenderedMarkdown > *:first-child")
    expect(rendered).to_have_count(len(outputs))
    page.locator("mjx-container").first.wait_for()
    expect(page.locator(".cellwright-answer > div")).to_have_count(len(transcripts))
    page.evaluate(UNFOLD)
    page.wait_for_load_state("networkidle")
    assert page.evaluate(ACTIVE, [".cellwright-answer", lab.url]) == []
    assert page.evaluate(ACTIVE, [".jp-RenderedMarkdown", lab.url]) == [f"img https://{HOST}/control"]
    assert watch.end() == [f"https://{HOST}/control"]


def test_widget_state_of_a_foreign_notebook_does_nothing(page, tab, lab, notebook_at):
    """Outputs with widgets, and the state that they are drawn from, which holds HTML and a script: their text is shown."""
    script = f"{RUN}; export default {{ render({{el}}) {{ {RUN}; el.innerHTML = {CONTROL!r}; }} }}"
    models = {
        "anywidget": {
            "_esm": script,
            "_anywidget_id": "cellwright.TranscriptWidget",
            "_css": f"@import 'https://{HOST}'",
        },
        "@jupyter-widgets/controls": {"value": f"<img src=https://{HOST}/a onerror={RUN}>"},
    }
    state = {}
    for module, fields in models.items():
        name = "Any" if module == "anywidget" else "HTML"
        kind = {"model_module": module, "model_name": f"{name}Model", "model_module_version": "*"}
        view = {"_view_module": module, "_view_name": f"{name}View", "_view_module_version": "*"}
        state[name] = {**kind, "state": {**fields, **view, **{f"_{key}": value for key, value in kind.items()}}}
    notebook = notebook_of([])
    for name in state:
        view = {"application/vnd.jupyter.widget-view+json": {"model_id": name, "version_major": 2, "version_minor": 0}}
        output = nbformat.v4.new_output("display_data", {**view, "text/plain": f"a widget, {name}"})
        notebook.cells.append(nbformat.v4.new_code_cell("", outputs=[output], id=name))
    notebook.cells += notebook_of([], [list(PAYLOADS)[:40]]).cells
    kept = {"version_major": 2, "version_minor": 0, "state": state}
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": kept}
    folder = lab.root / "foreign-widgets"
    folder.mkdir(exist_ok=True)
    path = folder / "notebook.ipynb"
    nbformat.write(notebook, path)
    watch = Watch(page, lab.url, lab.url.replace("http", "ws"))
    notebook_at(str(path.relative_to(lab.root))).open()
    expect(page.locator(".cellwright-answer > div")).to_have_count(1)
    for name in state:
        expect(page.get_by_text(f"a widget, {name}")).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert page.evaluate(ACTIVE, [".jp-OutputArea, .cellwright-answer", lab.url]) == []
    assert watch.end() == []


def test_exports_are_only_shown_as_nbconvert_writes_them(page, tab, tmp_path):
    about = {"title": "".join(PAYLOADS[:9]), "about": "".join(PAYLOADS[9:30])}
    exchanges = exchanges_of(messages())
    markdown = "".join(markdown_pieces(exchanges, folder="", keep_file=lambda *_: None, **about))
    documents = {
        "saved": notebook_of([saved_run(batch) for batch in batches(list(PAYLOADS), 40)]),
        "export": nbformat.reads("".join(notebook_pieces(exchanges, **about)), as_version=4),
        "markdown": nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(markdown)]),
    }
    for name, document in documents.items():
        html, _ = HTMLExporter().from_notebook_node(document)
        path = tmp_path / f"{name}.html"
        path.write_text(html, "utf-8")
        shown = opened_page(page.context)
        watch = Watch(shown, path.as_uri(), NBCONVERTS_OWN)
        shown.route(f"{NBCONVERTS_OWN}**", lambda route: route.abort())
        shown.goto(path.as_uri())
        assert shown.evaluate(ACTIVE, [".jp-RenderedMarkdown, .jp-OutputArea", path.as_uri()]) == [], name
        assert watch.end() == [], name
        shown.close()


RENDERER = "https://renderer.example/"
PLAY = """async (ops) => {
    const {open} = await import('/transcript.js');
    let tell;
    const transcript = open({send: () => undefined, onMessage: (listener) => { tell = listener; return () => undefined; }});
    const host = document.body.appendChild(document.createElement('div'));
    host.id = 'transcript';
    transcript.mount(host);
    ops.forEach((op, first) => tell({type: 'ops', first, now: 0, ops: [op]}));
}"""
END = "the last of them"
RULE = "Always allow"


def card_of(texts: Sequence[str]) -> dict[str, Any]:
    """A question about the first call: `texts` wherever a card has one, each of them a rule to keep."""
    kept = [
        {
            "key": "2",
            "action": "allow",
            "scope": "local",
            "label": f"{RULE} {text}",
            "rules": [f"Bash({text})"],
            "input": None,
        }
        for text in texts
    ]
    every = "\n".join(texts)
    shown = {
        "title": texts[0],
        "detail": every,
        "detail_kind": "diff",
        "path": texts[1],
        "warning": every,
        "reason": every,
    }
    call = {"question": "q", "tool": "t0", "name": "Bash", "kind": "permission", "input": {}}
    return {"op": "ask", **call, **shown, "choices": kept, "next": [], "at": 0.0}


def test_the_widget_only_shows_them(page):
    """The renderer of cells and of the panel, with all that a kernel sends."""
    shown = opened_page(page.context)
    shown.route(RENDERER, lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    shown.route(
        f"{RENDERER}transcript.js", lambda route: route.fulfill(path=RENDERER_FILE, content_type="text/javascript")
    )
    watch = Watch(shown, RENDERER)
    shown.goto(RENDERER)
    ops: list[dict[str, Any]] = [{"op": "run", "model": "m", "mode": "default", "session": "s", "started": 0.0}]
    for block, payload in enumerate(PAYLOADS):
        ops.append({"op": "text", "block": block, "text": "\n\n".join(cuts(payload))})
    for number, payload in enumerate(PAYLOADS):
        tool = {"id": f"t{number}", "name": payload[:60], "title": payload}
        ops.append({"op": "tool", **tool, "input": {"file_path": payload, payload: payload}, "group": "", "at": 0.0})
        ops.append({"op": "notice", "level": "warning", "text": payload})
    todos = [{"content": payload, "status": "in_progress", "activeForm": payload} for payload in PAYLOADS]
    ops += [{"op": "todos", "todos": todos}, card_of(PAYLOADS), {"op": "notice", "level": "warning", "text": END}]
    shown.evaluate(PLAY, ops)
    shown.get_by_text(END).wait_for()
    assert shown.get_by_role("button", name=RULE).count() == len(PAYLOADS)
    assert shown.evaluate(ACTIVE, ["#transcript", RENDERER]) == []
    assert watch.end() == []
    shown.close()


ALL_LISTED = """(count) => {
    const scroller = document.querySelector('.cw-sessions .found');
    scroller.scrollTop = scroller.scrollHeight;  // the next page is loaded
    return document.querySelectorAll('.cw-sessions .session').length >= count;
}"""


def file_names(folder: Path) -> dict[str, int]:
    """Files in `folder` that are called as the payloads: by words that find some of them each, how many these are."""
    named = {}
    # in lists of half as many as the palette shows, since there is a folder for each
    for letter, batch in zip("qzjxkvwyfhgb9753", batches(list(PAYLOADS), 24), strict=True):
        word = letter * 8
        named[word] = 0
        for index, payload in enumerate(batch):
            # only what prints and stands between double quotes is offered; the first slash makes a folder
            name = " ".join("".join(each if each.isprintable() else " " for each in payload.replace('"', "'")).split())
            parts = [part.replace("/", "\u2215")[:78].rstrip() for part in name.split("/", 1)]
            path = folder / f"{word} {index} {parts[0]}" / "/".join(part for part in parts[1:] if part.strip("."))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
            named[word] += bool(file_mention(str(path.relative_to(folder))))
    return named


def sessions_called_so(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of `folder` that began with each of the payloads, which titles them."""
    monkeypatch.setenv("CELLWRIGHT_HOME", str(home))
    for payload in PAYLOADS:
        session = Session.create(folder, sessions_folder(folder))
        session.begin(model="claude-opus-5-5", system=[], tools=[])
        session.next_seq += 1
        session.append({"role": "user", "content": payload})
        session.close()


def test_cards_sessions_and_file_names_only_show_them(notebook, model, page, lab, monkeypatch):
    element = f"<img src=x onerror={RUN}>"
    link = f"[a](javascript:{RUN}) ![b](https://{HOST}/a)"
    model.add(turn(use("Bash", command=f"touch '{element}' '{link}'")), turn(say(element), say(link)))
    watch = Watch(page, lab.url, lab.url.replace("http", "ws"))
    book = notebook("%load_ext cellwright", f"%%claude\n{element} {link}")
    folder = (lab.root / book.path).parent
    named = file_names(folder)
    sessions_called_so(folder, lab.state, monkeypatch)
    book.run(0)
    book.wait_done(0)
    book.run(1)
    card = book.asked(1)
    expect(card).to_contain_text(element)
    assert page.evaluate(ACTIVE, [".jp-Cell-outputArea", lab.url]) == []
    card.get_by_role("button", name="Deny").first.click()
    book.wait_done(1)
    page.keyboard.press("Control+Shift+y")
    panel = page.locator(".cellwright-panel")
    panel.locator(".kernel[data-connection=connected]").wait_for()
    prompt = panel.locator(".cellwright-prompt")
    expect(prompt).to_be_focused()
    for word, count in named.items():
        prompt.fill("")
        page.keyboard.type(f"Read @{word}")
        listed = panel.get_by_role("option").filter(has_text=word)
        listed.nth(count - 1).wait_for(state="attached")
        assert page.evaluate(ACTIVE, [".cellwright-panel [role=option]", lab.url]) == []
    prompt.fill("")
    panel.get_by_role("button", name="Sessions", exact=True).click()
    panel.locator(".cw-sessions .session").first.wait_for()
    page.wait_for_function(ALL_LISTED, arg=len(PAYLOADS), polling=50)
    assert page.evaluate(ACTIVE, [".cellwright-panel li, .cw-sessions .session, .jp-Cell-outputArea", lab.url]) == []
    assert json.dumps(book.save()["cells"][1]["outputs"]).count("&lt;img") > 0
    assert watch.end() == []
