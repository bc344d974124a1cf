"""A notebook as an HTML page: what JupyterLab's export and print show of an answer."""

import json
from pathlib import Path

import nbconvert
import nbformat
from traitlets.config import Config

# what Jupyter Server reads, and gives its exporters
CONFIG = Path(__file__).parents[2] / "jupyter-config/jupyter_server_config.d/cellwright.json"


CODE = "So:\n\n```python\nimport tides\n```\n"


def page(metadata: dict[str, object], markdown: str = CODE, **more: object) -> str:
    output = nbformat.v4.new_output("display_data", data={"text/markdown": markdown, **more}, metadata=metadata)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%%claude\nhi", outputs=[output])])
    config = Config(json.loads(CONFIG.read_text("utf-8")))
    html, _ = nbconvert.HTMLExporter(config=config).from_notebook_node(notebook)
    return str(html)


def test_code_of_an_answer_is_set_as_code_and_other_notebooks_are_left_alone() -> None:
    rule = ".jp-RenderedMarkdown .highlight pre {"
    exported = page({"cellwright": {"run": "r", "output": 0}})
    assert '<div class="highlight"><pre>' in exported
    style = exported[exported.index(rule) :]
    assert "font-family: var(--jp-code-font-family, monospace)" in style[: style.index("}")]
    # what is printed has all steps
    assert (
        "@media print {\n  .jp-RenderedMarkdown details::details-content {\n    content-visibility: visible;"
        in exported
    )
    assert rule not in page({})


def test_numbers_without_a_source_are_marked() -> None:
    number = {"text": "31.8 %", "from_end": 1, "words": "not in any <result>", "marked": True}
    kept = {"ops": [{"op": "numbers", "numbers": [{**number, "text": "7"}, number, {**number, "from_end": 9}]}]}
    markdown = "31.8 % of 31.8 % and `31.8 %`\n\n*Not found in any result of this conversation:*\n\n- 31.8 %"
    answer = {"cellwright": {"run": "r", "output": 0}}
    exported = page(answer, markdown, **{"application/vnd.cellwright.transcript+json": kept})
    marked = (
        '<p><span class="cellwright-unsourced" title="not in any &lt;result&gt;">31.8 %</span> of 31.8 % and <code>'
    )
    assert marked in exported
    assert exported.count('"cellwright-unsourced"') == 1
