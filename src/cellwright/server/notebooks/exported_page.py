"""Answers in exported HTML pages: code is set as code, and on paper folded steps are open."""

from __future__ import annotations

from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

# what nbconvert colours is a `pre` without a `code` in it, for which its page has no font
STYLE = """\
.jp-RenderedMarkdown .highlight pre {
  margin: 0.5em 0;
  padding: 0.6em 0.8em;
  background: var(--jp-layout-color2, #eee);
  font-family: var(--jp-code-font-family, monospace);
  font-size: var(--jp-code-font-size, 13px);
  line-height: var(--jp-code-line-height, 1.31);
  white-space: pre-wrap;
}
/* on paper nothing can be unfolded, and nothing scrolled to the side */
@media print {
  .jp-RenderedMarkdown details::details-content {
    content-visibility: visible;
    block-size: auto;
  }
  .jp-InputArea-editor .highlight pre {
    white-space: pre-wrap;
  }
}
"""


class AnswerStyle(Preprocessor):
    """Gives the page of a notebook that holds Claude's answers the style."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Put the style before the first answer; `nb` is the exporter's copy."""
        outputs = (output for cell in nb.cells for output in cell.get("outputs", ()))
        answers = (each["data"] for each in outputs if "cellwright" in each.get("metadata", {}))
        first = next((data for data in answers if "text/markdown" in data), None)
        # what is not let through would be read as text; the template's own style sheets are made after this
        if first is not None and not getattr(self.parent, "sanitize_html", False):
            first["text/markdown"] = f"<style>\n{STYLE}</style>\n\n{first['text/markdown']}"
        return nb, resources
