"""Where we write by ourselves: every module that writes says whose place it is, and below a project it follows no links."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "cellwright"

WRITING = frozenset(
    {
        *("write_text", "write_bytes", "mkdir", "makedirs", "symlink_to", "hardlink_to", "touch", "mkstemp", "mkdtemp"),
        *("NamedTemporaryFile", "TemporaryDirectory", "copytree", "copyfile", "copy2", "make_private_folder"),
        *("write_atomic", "write_atomically", "write_together", "write_file", "make_folders", "open_to_append"),
        *("set_value", "add_allow_rules", "change_rules"),
    }
)
WRITES = re.compile(r"O_(CREAT|WRONLY|RDWR|APPEND)|_NEW\b|_INTO\b|\bflags\b|'[wax]b?\+?'")

BELOW_A_PROJECT = """
agent/recording/recorder.py commands/sessions/export.py config/settings/edit.py config/settings/settings.py
features/agents/worktree.py telemetry/tool_log.py tools/planning/plan_mode.py
config/mcp/written_servers.py python_api/map_result.py commands/extensions/manage_changes.py
"""
"""Each goes through `sessions/project_writes.py`."""

JUDGED = """
checkpoints/undo.py tools/files/atomic_write.py tools/files/changes.py tools/files/patched_files.py
tools/files/recovery.py tools/files/staged_file.py tools/notebook/file_notebook.py
agent/recording/replay.py sessions/project_writes.py features/preview/changes.py sandbox/bubblewrap.py
sandbox/staging.py
"""
"""What calls do at the real place that was judged, or undo there; folders are opened without following links."""

OUR_STATE = """
agent/recording/recordings.py agent/spending.py checkpoints/journal.py
codebase/embedding/load_model.py codebase/indexer.py codebase/store.py commands/doctor.py
config/credentials/stored_key.py config/plugins/install.py config/plugins/plugin.py
config/plugins/installed_plugins.py config/plugins/options.py config/plugins/marketplace.py
config/trust/trust_store.py features/agents/subagents.py server/proxy/spending_ledger.py
sessions/catalog/metadata.py sessions/catalog/retention.py sessions/file_changes.py sessions/catalog/index.py
sessions/session.py sessions/state_dir.py sessions/transcripts/transcript_file.py server/administration.py
sessions/transcripts/transcript_lock.py telemetry/log_file.py terminal/interactive/prompt_line.py
tools/code/navigation/project_code.py tools/code/navigation/index_processes.py tools/files/originals.py
terminal/subcommands/docs.py tools/mcp/token_store.py
"""

TEMPORARY = """
agent/calls/tool_results.py doctor/environment_checks.py kernel/cells/fresh_kernel.py
sandbox/containers/images.py sandbox/mechanisms.py
sandbox/private_folder.py this_process/files.py sandbox/git_configuration.py
server/proxy/kernel_access.py terminal/demo/demo_project.py terminal/demo/run_demo.py
terminal/interactive/interact.py tools/code/project_programs.py tools/code/unittest_reporter.py
model/claude_code_provider.py features/preview/staged_tree.py
"""
"""Folders that we made for the purpose."""

THE_USERS = """
config/credentials/entered_cloud.py terminal/subcommands/config.py terminal/subcommands/setup.py
"""
"""The user's own configuration, in their home."""

READING = "tools/files/formats/text.py"
"""It opens with flags to read."""

THE_NULL_DEVICE = """
kernel/branches/forked/descriptors.py kernel/cells/fresh_kernel_main.py terminal/main.py tools/mcp/transports.py
"""

THE_SYSTEMS = "kernel/branches/forked/resets.py"
"""A setting of the own process, in `/proc`; besides, the null device."""

IN_MEMORY = "kernel/branches/taken_values.py kernel/branches/template.py"
"""Files without a name."""

CLASSES = (BELOW_A_PROJECT, JUDGED, OUR_STATE, TEMPORARY, THE_USERS, READING, THE_NULL_DEVICE, THE_SYSTEMS, IN_MEMORY)


def test_every_module_that_writes_says_whose_place_it_is():
    writing = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if _counts(path) and any(_writes(path))}
    listed = [name for names in CLASSES for name in names.split()]
    assert sorted(listed) == sorted(set(listed))
    assert writing - set(listed) == set(), "new: below a project it must go through sessions/project_writes.py"
    assert set(listed) - writing == set(), "they write no more"


def test_what_writes_below_a_project_follows_no_links():
    for name in BELOW_A_PROJECT.split():
        text = (SOURCES / name).read_text("utf-8")
        assert "project_writes import" in text or "add_allow_rules(" in text or "set_value(" in text, name


def _counts(path: Path) -> bool:
    return not {"testing", "sample_project"} & set(path.parts)


def _writes(path: Path) -> Iterator[str]:
    source = path.read_text("utf-8")
    if "open(" not in source and not any(name in source for name in WRITING):
        return  # to parse a thousand modules takes seconds
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = " ".join(ast.unparse(each) for each in (*node.args, *(pair.value for pair in node.keywords)))
            if name in WRITING or (name == "open" and WRITES.search(given)):
                yield name
