"""The reel: what a scene shows, in light and dark, at three sizes and in forced colours, with what is wrong with it.

`make reel` has it taken. Beside the pictures stands `findings.jsonl`: what axe-core, and a look at boxes, object to in what
is ours on the page; JupyterLab's own is left out.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from accessibility import OURS, load_axe
from lab_tab import DARK, LIGHT, LabTab

FOLDER = os.environ.get("CELLWRIGHT_REEL")
SIZES = {"1440x900": (1440, 900), "1100x700": (1100, 700), "zoom-200": (720, 450)}  # the last: 1440x900 at 200 %
FORCED = "forced-colors"
_taken: set[str] = set()

FIND = (
    f"async (whole) => {{{OURS}"
    """
    const nodes = (root) => [...root.querySelectorAll('*')].flatMap(
        (node) => [node, ...(node.shadowRoot ? nodes(node.shadowRoot) : [])]);
    const found = [];
    const {violations} = whole ? await axe.run(document, {elementRef: true}) : {violations: []};
    for (const {id, help, nodes: wrong} of violations)
        for (const {element, html, failureSummary} of wrong)
            if (ours(element)) found.push([id, help, html.slice(0, 300), failureSummary]);
    const words = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    const shown = (node) => node.checkVisibility({opacityProperty: true, visibilityProperty: true});
    const name = (node) => `${node.localName}.${node.getAttribute('class') ?? ''}: ${node.textContent.trim().slice(0, 60)}`;
    for (const node of nodes(document.body).filter((node) => ours(node) && shown(node))) {
        const style = getComputedStyle(node);
        const box = node.getBoundingClientRect();
        if (box.width <= 2 || box.height <= 2) continue;  // for screen readers alone
        if (words(node) && style.overflowX !== 'visible' && style.overflowX !== 'auto' && style.overflowX !== 'scroll'
            && style.textOverflow !== 'ellipsis' && node.scrollWidth > node.clientWidth + 1 && style.display !== 'inline')
            found.push(['cut', name(node)]);
        if (node.matches('button, input, select, textarea, a[href]') && box.right > innerWidth + 1 && box.left < innerWidth)
            found.push(['beyond the right edge', name(node)]);
    }
    // the card with the keys, as the page has it when its user comes back to it
    let focused = document.activeElement;
    while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
    const card = focused?.closest('.ask[data-ready]');
    card?.scrollIntoView({block: 'nearest'});
    for (const node of [...(card?.querySelectorAll('button') ?? [])].filter(shown)) {
        const {top, bottom} = node.getBoundingClientRect();
        if (top < 0 || bottom > innerHeight) found.push(['a button of the card out of view', name(node)]);
    }
    return found;
}"""
)

# while something fades in, its contrast is low
IS_STILL = """() => document.getAnimations().every(
    ({playState, effect}) => playState !== 'running' || effect.getTiming().iterations > 1)"""


def take(tab: LabTab, name: str, target: Any = None) -> None:
    """Add what the tab's page shows, with `target` in view, to the reel that `make reel` has asked for.

    A scene that docs/images has in two themes is one here.
    """
    name = name.removesuffix("-light").removesuffix("-dark")
    if FOLDER is None or name in _taken:
        return
    _taken.add(name)
    folder = Path(FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    page = tab.page
    before = page.viewport_size
    dark = page.evaluate("document.body.dataset.jpThemeLight === 'false'")
    load_axe(page)
    for theme in (LIGHT, DARK):
        tab.choose_theme(theme)
        shade = theme.split()[-1].lower()
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            if target is not None:
                target.scroll_into_view_if_needed()
            page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            # what axe finds depends on the theme, and little on the size
            _look(folder, page, f"{name}-{shade}-{size}", with_axe=size != "1100x700")
    page.set_viewport_size(dict(zip(("width", "height"), SIZES["1440x900"], strict=True)))
    for scheme in ("light", "dark"):
        page.emulate_media(forced_colors="active", color_scheme=scheme)
        tab.choose_theme(LIGHT if scheme == "light" else DARK)
        page.screenshot(path=folder / f"{name}-{scheme}-{FORCED}.png")
    page.emulate_media(forced_colors="null", color_scheme="null")
    page.set_viewport_size(before)
    tab.choose_theme(DARK if dark else LIGHT)


def _look(folder: Path, page: Any, name: str, *, with_axe: bool) -> None:
    page.wait_for_function(IS_STILL)
    found = page.evaluate(FIND, with_axe)
    page.screenshot(path=folder / f"{name}.png")
    with (folder / "findings.jsonl").open("a", encoding="utf-8") as lines:
        for each in found:
            lines.write(json.dumps([name, *each], ensure_ascii=False) + "\n")
