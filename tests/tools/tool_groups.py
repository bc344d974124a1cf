"""The built-in tools that work on files, as tests of several rooms want them: made together, sharing what was read."""

from __future__ import annotations

from pathlib import Path

from cellwright.agent.tool import Tool
from cellwright.tools.code.edit_symbol import edit_symbol_tool
from cellwright.tools.files.apply_patch import apply_patch_tool
from cellwright.tools.files.edit import edit_tool, multi_edit_tool
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool
from cellwright.tools.files.write import write_tool
from cellwright.tools.notebook.notebook_edit import notebook_edit_tool
from cellwright.tools.notebook.notebook_read import notebook_read_tool
from cellwright.tools.notebook.open_notebook import OpenNotebooks
from cellwright.tools.search.file_tree import file_tree_tool
from cellwright.tools.search.glob import glob_tool
from cellwright.tools.search.grep import grep_tool
from cellwright.tools.search.ls import ls_tool


def file_tools(state: FileState, cwd: Path, notebooks: OpenNotebooks | None = None) -> list[Tool]:
    """Read and what changes text files."""
    editing = (write_tool, edit_tool, multi_edit_tool, apply_patch_tool, edit_symbol_tool)
    return [read_tool(state, cwd, notebooks), *(make(state, cwd) for make in editing)]


def notebook_tools(state: FileState, cwd: Path, notebooks: OpenNotebooks | None = None) -> list[Tool]:
    """NotebookRead and NotebookEdit."""
    return [notebook_read_tool(state, cwd, notebooks), notebook_edit_tool(state, cwd, notebooks)]


def search_tools(cwd: Path) -> list[Tool]:
    """The tools that find files, with what is in them."""
    return [glob_tool(cwd), grep_tool(cwd), ls_tool(cwd), file_tree_tool(cwd)]
