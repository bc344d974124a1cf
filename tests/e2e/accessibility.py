"""What axe-core finds in a part of a page, or in all that is ours on it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eventual import eventually

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"

FIND = """async (node, [part, rules]) => {
    const {violations, passes} = await axe.run(node, rules.length ? {runOnly: rules} : {});
    const serious = violations.filter(({impact}) => ["serious", "critical"].includes(impact));
    const seen = passes.flatMap(({nodes}) => nodes);
    return {
        looked: seen.some(({html, target}) => html.includes(part) || JSON.stringify(target).includes(part)),
        violations: serious.map(({id, help, nodes}) => [id, help, nodes.map(({html}) => html)]),
    };
}"""

OURS = """
    const ours = (node) => {
        for (let at = node; at; at = at.parentElement ?? at.getRootNode().host) {
            // an answer in the output of a cell; what JupyterLab has with roots are custom elements
            if (at.shadowRoot && !at.localName.includes('-')) return true;
            const names = at.getAttribute?.('class') ?? '';
            // their class may be ours and JupyterLab's: a notebook, a cell, an editor
            if (/(^| )(jp-(Notebook|Cell|WindowedPanel|Toolbar)|cm-editor|lm-Menu)/.test(names)) return false;
            if (/(^| )(cellwright|cw)-/.test(names)) return true;
        }
        return false;
    };
"""
"""In a function of the page: whether a node is ours, and not JupyterLab's."""

FIND_IN_OURS = (
    f"async () => {{{OURS}"
    """
    const shown = [...document.querySelectorAll('*')].filter(
        (node) => ours(node) && node.checkVisibility() && node.getClientRects().length);
    const include = shown.filter((node) => !ours(node.parentElement));
    if (!include.length) return [];
    const {violations} = await axe.run({include}, {elementRef: true, resultTypes: ['violations']});
    return violations.filter(({impact}) => ["serious", "critical"].includes(impact)).flatMap(({id, help, nodes}) =>
        nodes.filter(({element}) => ours(element)).map(({html}) => [id, help, html.slice(0, 300)]));
}"""
)


def check_accessible(target: Any, part: str = "", rules: Sequence[str] = ()) -> None:
    """No serious violation of WCAG in `target`, shadow roots included; axe has looked at `part`, of a path or of HTML.

    Only `rules` are tried where they are given: of a page that was looked at whole, and has got other colours since.
    """
    load_axe(target.page)
    wanted = {"looked": True, "violations": []}
    eventually(
        lambda: target.evaluate(FIND, [part, list(rules)]), wanted.__eq__
    )  # while something fades in, its contrast is low


def check_ours(page: Any) -> None:
    """No serious violation of WCAG in all that is ours on the page; JupyterLab's own is left out."""
    eventually(lambda: violations_in_ours(page), [].__eq__)


def violations_in_ours(page: Any) -> list[list[str]]:
    """Rule, its sentence and the HTML of each."""
    load_axe(page)
    return page.evaluate(FIND_IN_OURS)


def load_axe(page: Any) -> None:
    """Have axe in the page, and see to it that it looks at texts.

    It takes all within a box of no height that hides what goes beyond it for out of sight, and leaves its contrast out;
    JupyterLab's body is such a box.
    """
    if not page.evaluate("() => 'axe' in window"):  # half a megabyte
        page.add_script_tag(path=AXE)
    page.evaluate("() => { document.body.style.overflow = 'clip' }")
