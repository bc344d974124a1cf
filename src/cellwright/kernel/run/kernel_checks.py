"""The doctor's checks that only a kernel can make: front ends, answers while a cell runs, trust in notebooks."""

from __future__ import annotations

from typing import Any

from cellwright.doctor.check import Check, Finding
from cellwright.kernel import library_imports
from cellwright.kernel.pages.pages import Pages


def kernel_checks(kernel: Any, pages: Pages) -> list[Check]:
    """The checks of a kernel; most make no sense in a terminal's IPython, where `kernel` is None."""
    if kernel is None:
        return [Check("libraries", libraries)]
    return [
        Check("libraries", libraries),
        Check("front end", lambda: front_end(pages)),
        Check("kernel's subshells", lambda: subshells(kernel)),
        Check("notebook", lambda: notebook(pages)),
    ]


def libraries() -> Finding:
    """Check that no file of the user's has been imported in the place of a library."""
    finder = library_imports.installed()
    hidden = [] if finder is None else finder.hidden_libraries()
    if not hidden:
        return Finding("libraries", "ok", "no file of the notebook's folder hides one")
    found = "; ".join(f"{file} hides the library {name}" for name, file in hidden)
    advice = "Whatever needs such a library fails. Rename the file and restart the kernel."
    return Finding("libraries", "warning", found, advice)


def front_end(pages: Pages) -> Finding:
    """Name the pages that have connected: the extension is at work in those."""
    shown = [page.front_end or "a page" for page in pages.all()]
    if shown:
        return Finding("front end", "ok", ", ".join(dict.fromkeys(shown)))
    if pages.any_came:
        return Finding("front end", "ok", "none now; one was connected before")
    advice = (
        "In JupyterLab or Notebook 7 the extension is missing in the server's environment, or the page is older than its "
        "installation: install Cellwright there, restart the server, reload the page. VS Code, Colab and consoles never "
        "connect: there questions come as input fields, and notebooks are edited in their files."
    )
    return Finding("front end", "warning", "no page of JupyterLab or Notebook 7 has connected to this kernel", advice)


def subshells(kernel: Any) -> Finding:
    """Check whether this kernel takes messages while a cell runs."""
    if getattr(kernel, "_supports_kernel_subshells", False):  # ipykernel 6 does not know the word
        return Finding("kernel's subshells", "ok", "it answers while a cell runs")
    found = "while a cell runs this kernel does not respond: the panel and suggestions wait"
    return Finding("kernel's subshells", "warning", found, "pip install --upgrade ipykernel, and restart the kernel.")


def notebook(pages: Pages) -> Finding:
    """Check whether the notebooks of this kernel are trusted, as Jupyter has it."""
    own = {shown.path: shown.trusted for page in pages.all() for shown in page.notebooks if shown.own}
    foreign = [path.name for path, trusted in own.items() if not trusted]
    if foreign:
        advice = "Claude asks before it works by their words. Run their cells yourself, or trust them in the File menu."
        return Finding("notebook", "warning", f"{', '.join(foreign)}: not trusted", advice)
    return Finding("notebook", "ok", ", ".join(path.name for path in own) or "none is known")
