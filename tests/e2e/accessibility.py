"""What axe-core finds in a part of a page."""

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


def check_accessible(target: Any, part: str = "", rules: Sequence[str] = ()) -> None:
    """No serious violation of WCAG in `target`, shadow roots included; axe has looked at `part`, of a path or of HTML.

    Only `rules` are tried where they are given: of a page that was looked at whole, and has got other colours since.
    """
    target.page.add_script_tag(path=AXE)
    wanted = {"looked": True, "violations": []}
    eventually(
        lambda: target.evaluate(FIND, [part, list(rules)]), wanted.__eq__
    )  # while something fades in, its contrast is low
