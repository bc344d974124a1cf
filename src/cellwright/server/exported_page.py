"""Answers in exported HTML pages: code is set as code, numbers without a source are marked, paper has no closed folds."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

from cellwright.events import NOT_FOUND_NUMBERS
from cellwright.markdown.prose import prose_of
from cellwright.tools.notebook.notebook_page import OUR_ANSWER

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
.cellwright-unsourced {
  text-decoration: underline dotted;
  text-underline-offset: 3px;
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


def _with_marks(markdown: str, kept: Mapping[str, Any]) -> str:
    """Return the saved answer with the numbers marked that the list at its end names."""
    answer, title, rest = markdown.rpartition(f"*{NOT_FOUND_NUMBERS}*")
    if not title:
        return markdown
    prose = prose_of(answer)
    said = [number for op in kept.get("ops", ()) if op.get("op") == "numbers" for number in op.get("numbers", ())]
    for number in reversed([each for each in said if each.get("marked")]):
        text, at = str(number["text"]), len(prose)
        for _ in range(min(int(number["from_end"]), len(prose)) + 1):
            at = prose.rfind(text, 0, at)
            if at < 0:
                break
        else:
            mark = f'<span class="cellwright-unsourced" title="{escape(str(number["words"]))}">{text}</span>'
            answer = f"{answer[:at]}{mark}{answer[at + len(text) :]}"
    return f"{answer}{title}{rest}"


class AnswerStyle(Preprocessor):
    """Gives the page of a notebook that holds Claude's answers the style."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Put the style before the first answer; `nb` is the exporter's copy."""
        outputs = (output for cell in nb.cells for output in cell.get("outputs", ()))
        answers = [each["data"] for each in outputs if "cellwright" in each.get("metadata", {})]
        first = next((data for data in answers if "text/markdown" in data), None)
        # what is not let through would be read as text; the template's own style sheets are made after this
        if first is not None and not getattr(self.parent, "sanitize_html", False):
            for data in answers:
                if "text/markdown" in data:
                    data["text/markdown"] = _with_marks(data["text/markdown"], data.get(OUR_ANSWER) or {})
            first["text/markdown"] = f"<style>\n{STYLE}</style>\n\n{first['text/markdown']}"
        return nb, resources
