"""The tab of JupyterLab that a worker's scenes share: to load it costs more than all else that a scene does.

After a scene the tab is cleaned: what was open is closed, settings are the defaults again, nothing of the sidebar is left.
Where something is, or a scene has failed, the tab is closed, and the next scene loads another. A scene that changes
what only a load brings back has a page of its own (fixture `own_page`).
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from lab_server import Lab
from playwright.sync_api import Error as PageError
from playwright.sync_api import expect

from eventual import SECONDS

SLOW = float(os.environ.get("CELLWRIGHT_E2E_SLOW", "1"))
VIEWPORT = {"width": 1180, "height": 900}
CLEAN_WITHIN_MS = 5_000
"""Else a new tab is the quicker way."""

# a load would bring these back, and we cannot
CAN_BE_CLEANED = """() => {
    const app = window.jupyterapp;
    if (!app || !location.pathname.includes('/lab')) return 'no JupyterLab';
    const panel = document.querySelector('.cellwright-panel');
    const left = {
        'a dialog': document.querySelector('.jp-Dialog'),
        'a toast': document.querySelector('.Toastify__toast'),
        'a prompt': panel?.querySelector('.cellwright-prompt')?.value,
        'a chosen cell': panel?.querySelector('.cellwright-cell-chip[aria-pressed=true]'),
        'attachments': panel?.querySelector('.cellwright-attached li'),
        'an own kernel': panel && sessionStorage.getItem('cellwright:own-kernel'),
    };
    return Object.keys(left).filter((name) => left[name]).join(', ');
}"""
CLEAN = """async () => {
    const {shell, commands} = window.jupyterapp;
    // as it is: closing would ask whether to save
    for (const area of ['main', 'down']) for (const widget of [...shell.widgets(area)]) widget.dispose();
    shell.collapseRight();
    await commands.execute('filebrowser:go-to-path', {path: '/', dontShowBrowser: true});
    shell.activateById('filebrowser');
    sessionStorage.clear();
}"""
REFRESH = "() => window.jupyterapp.serviceManager.sessions.refreshRunning()"
IS_CLEAN = """() => {
    const panel = document.querySelector('.cellwright-panel');
    const theme = document.body.dataset.jpThemeName;
    return !document.querySelector('.jp-NotebookPanel, .jp-Dialog, .lm-Menu')
        && document.querySelector('.jp-DirListing')?.checkVisibility()
        && (!panel || (!panel.checkVisibility() && !panel.querySelector('.run')
            && !panel.querySelector(".kernel[data-connection='connected']")))
        && theme === 'JupyterLab Light';
}"""
SET = """async ([plugin, raw]) => {
    const {pluginRegistry} = window.jupyterapp;
    const registry = pluginRegistry._plugins.get('@jupyterlab/apputils-extension:settings').service;
    await registry.upload(plugin, raw);
}"""
WITH_KEYBOARD = """() => {
    let node = document.activeElement;
    while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
    return node;
}"""
OPEN = """async path => {
    const {shell, commands} = window.jupyterapp;
    await commands.execute('filebrowser:open-path', {path});
    for (const widget of [...shell.widgets('main')]) if (widget.id.startsWith('launcher')) widget.dispose();
}"""
THEMES = "@jupyterlab/apputils-extension:themes"
LIGHT, DARK, HIGH_CONTRAST = "JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"


class LabTab:
    """The tab of a worker, `page`, which is a new one for who takes the tab when there is none."""

    def __init__(self, context: Any, lab: Lab) -> None:
        self.context = context
        self.lab = lab
        self.page: Any = None
        self.is_clean = False
        """JupyterLab is loaded, and nothing is open in it."""

    def take(self, *, own: bool) -> Any:
        """The page for a scene; an empty one for a scene that has it for its `own`."""
        if own or not self.is_clean:
            self.close()
        if self.page is None:
            self.page = opened_page(self.context)
            self.page.complaints = []
            self.page.on("console", self._said)
            self.page.on("pageerror", self._failed)
        self.page.complaints.clear()
        return self.page

    def _said(self, said: Any) -> None:
        if said.type in ("error", "warning", "debug"):
            self.page.complaints.append(said.text[:500])

    def _failed(self, error: Any) -> None:
        self.page.complaints.append((error.stack or str(error))[:1_000])

    def give_back(self, *, spent: bool) -> None:
        """Clean up after a scene, the server and its kernels included."""
        was_clean, self.is_clean = self.is_clean, False
        for page in self.context.pages:
            if page is not self.page:
                page.close()
        with contextlib.suppress(PageError):  # a page that crashed, or hangs: another one
            if not spent and (was_clean or not self.page.evaluate(CAN_BE_CLEANED)):
                self.page.emulate_media(forced_colors="null", reduced_motion="null")
                self.page.set_viewport_size(VIEWPORT)
                self.page.unroute_all()
                self.page.evaluate(CLEAN)
                self.is_clean = True
        self.lab.end_sessions()
        with contextlib.suppress(PageError):
            self._clean_rest()
        self.lab.forget()
        if not self.is_clean:
            self.close()

    def _clean_rest(self) -> None:
        for plugin, path in self.lab.user_settings().items():
            if self.is_clean:
                self._upload(plugin, "{}")
            path.unlink(missing_ok=True)
        if self.is_clean:
            self.is_clean = False
            self.page.evaluate(REFRESH)
            self.page.wait_for_function(IS_CLEAN, timeout=CLEAN_WITHIN_MS)
            self.is_clean = True

    def close(self) -> None:
        if self.page is not None:
            self.page.close()
        self.page, self.is_clean = None, False

    def choose(self, plugin: str, **settings: Any) -> None:
        """Set what the user has set of a plugin, in the page as well where JupyterLab is loaded."""
        raw = json.dumps(settings)
        if not self.is_clean:
            self.lab.api("PUT", f"lab/api/settings/{plugin}", {"raw": raw})
            return
        self._upload(plugin, raw)

    def choose_theme(self, name: str) -> None:
        """Give the page that is loaded another theme; who has the keyboard keeps it, which JupyterLab forgets."""
        with_keyboard = self.page.evaluate_handle(WITH_KEYBOARD)
        self._upload(THEMES, json.dumps({"theme": name}))
        self.page.locator(f"body[data-jp-theme-name='{name}']").wait_for(state="attached")
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)
        with_keyboard.evaluate("node => { node.focus() }")

    def _upload(self, plugin: str, raw: str) -> None:
        self.page.evaluate(SET, [plugin, raw])

    def open(self, path: str) -> None:
        """Have JupyterLab open a file, as if the address named it, and the file browser show its folder."""
        if self.is_clean:
            self.is_clean = False
            self.page.evaluate(OPEN, path)
        else:
            self.page.goto(f"{self.lab.url}/lab/tree/{path}?reset", wait_until="domcontentloaded")

    def open_nothing(self) -> None:
        """JupyterLab without a document, as it is without a path in the address."""
        if not self.is_clean:
            self.page.goto(f"{self.lab.url}/lab?reset", wait_until="domcontentloaded")
        self.is_clean = False
        self.page.locator(".jp-SideBar [data-id=cellwright-panel]").wait_for()
        self.page.locator(".jp-Launcher").wait_for()
        wait_loaded(self.page)


def wait_loaded(page: Any) -> None:
    """Wait until JupyterLab is what it was before: it gives the keyboard to somebody then; before, keys may do nothing."""
    page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)


def opened_page(context: Any) -> Any:
    """A page in which everything may take its time."""
    page = context.new_page()
    page.set_default_timeout(SECONDS * 1_000)
    if SLOW > 1:
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOW})
    return page
