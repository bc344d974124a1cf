"""What axe-core finds in a part of a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from eventual import eventually

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"

# of a window of 1440 × 900 pixels
AT_200_PERCENT = {"width": 720, "height": 450}

LANDMARKS = """() => {
    const found = [];
    const look = root => {
        for (const node of root.querySelectorAll('*')) {
            if (node.shadowRoot) look(node.shadowRoot);
            const role = node.getAttribute('role') ?? (node.localName === 'section' ? 'region' : null);
            const name = node.getAttribute('aria-label');
            if (role === 'region' && name && node.checkVisibility()) found.push(name);
        }
    };
    look(document);
    return found.filter((name, at) => found.indexOf(name) !== at);
}"""

FIND = """async (node, [part, rules]) => {
    const {violations, passes} = await axe.run(node, rules.length ? {runOnly: rules} : {});
    const serious = violations.filter(({impact}) => ["serious", "critical"].includes(impact));
    const seen = passes.flatMap(({nodes}) => nodes);
    return {
        looked: seen.some(({html, target}) => html.includes(part) || JSON.stringify(target).includes(part)),
        violations: serious.map(({id, help, nodes}) => [id, help, nodes.map(({html}) => html)]),
    };
}"""


def check_zoomed(page: Any, *nodes: Any) -> None:
    """At 200 % zoom the page doesn't scroll sideways, and each of `nodes` can be in view whole."""
    before = page.viewport_size
    page.set_viewport_size(AT_200_PERCENT)
    try:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for node in nodes:
            node.scroll_into_view_if_needed()
            expect(node).to_be_in_viewport(ratio=0.99)
    finally:
        page.set_viewport_size(before)


def check_landmarks(page: Any) -> None:
    """No two landmarks have one name."""
    eventually(lambda: page.evaluate(LANDMARKS), lambda twice: twice == [])


def check_accessible(target: Any, part: str = "", rules: Sequence[str] = ()) -> None:
    """No serious violation of WCAG in `target`, shadow roots included; axe has looked at `part`, of a path or of HTML.

    Only `rules` are tried where they are given: of a page that was looked at whole, and has got other colours since.
    """
    target.page.add_script_tag(path=AXE)
    wanted = {"looked": True, "violations": []}
    eventually(
        lambda: target.evaluate(FIND, [part, list(rules)]), wanted.__eq__
    )  # while something fades in, its contrast is low
