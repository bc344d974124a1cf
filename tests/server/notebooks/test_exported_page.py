"""A notebook as an HTML page: what JupyterLab's export and print show of an answer."""

import json
from pathlib import Path

import nbconvert
import nbformat
from traitlets.config import Config

# what Jupyter Server reads, and gives its exporters
CONFIG = Path(__file__).parents[3] / "jupyter-config/jupyter_server_config.d/cellwright.json"


def page(metadata: dict[str, object]) -> str:
    markdown = "So:\n\n```python\nimport tides\n```\n"
    output = nbformat.v4.new_output("display_data", data={"text/markdown": markdown}, metadata=metadata)
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
