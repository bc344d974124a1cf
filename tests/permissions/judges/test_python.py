"""May Python run, and are the shell commands in it held to Bash's rules?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.permissions.judges.python import uses_in
from declared_tools import tool_named
from row_tables import for_each_row

RUNS_RM = {
    "bang": "!rm x",
    "bang-indented": "if True:\n    !rm x",
    "bang-assigned": "out = !rm x",
    "bang-unpacked": "a, b = !rm x",
    "bang-bang": "!!rm x",
    "bang-continued": "!rm \\\n  x",
    "bang-variable": "!rm {name}",
    "bang-compound": "!ls; rm x",
    "sx": "%sx rm x",
    "sx-assigned": "out = %sx rm x",
    "system": "%system rm x",
    "timed": "%time !rm x",
    "alias": "%rm x",
    "automagic": "rm x",
    "automagic-path": "rm /srv/data",
    "alias-defined": "%alias wipe rm x",
    "cell-bash": "%%bash\nls\nrm x",
    "cell-sh": "%%sh\nrm x",
    "cell-script": "%%script bash -e\nrm x",
    "cell-bang": "%%!\nrm x",
    "cell-sx": "%%sx\nrm x",
    "cell-timed": "%%time\n!rm x",
    "get_ipython-system": "get_ipython().system('rm x')",
    "get_ipython-getoutput": 'files = get_ipython().getoutput("rm x")',
    "get_ipython-magic": "get_ipython().run_line_magic('sx', 'rm x')",
    "get_ipython-cell-magic": "get_ipython().run_cell_magic('bash', '', 'rm x')",
    "get_ipython-run-cell": "get_ipython().run_cell('!rm x')",
    "os-system": "import os\nos.system('rm x')",
    "os-popen": "os.popen('rm x').read()",
    "os-system-imported": "from os import system\nsystem('rm x')",
    "os-system-formatted": "os.system(f'rm {path}')",
    "os-system-added": "os.system('rm ' + path)",
    "subprocess-list": "subprocess.run(['rm', '-rf', path])",
    "subprocess-text": "subprocess.check_output('rm x', shell=True)",
    "subprocess-Popen": "from subprocess import Popen\nPopen(['rm', 'x'])",
    "subprocess-keyword": "subprocess.run(args=['rm', 'x'])",
    "asyncio-shell": "await asyncio.create_subprocess_shell('rm x')",
    "asyncio-exec": "await asyncio.create_subprocess_exec('rm', 'x')",
    "not-python": "def broken(:\n  os.system('rm x')",
    "among-others": "x = 1\n!ls\ny = 2\n!rm x\n",
}


@for_each_row("code", RUNS_RM.values(), ids=RUNS_RM.keys())
def test_rules_for_bash_bind_the_commands_in_python(place, code):
    for mode in ("default", "bypassPermissions"):
        denied = place.policy(mode, deny=["Bash(rm *)"], allow=["Python", "Bash"]).decide(
            tool_named("Python"), {"code": code}
        )
        assert denied.behavior == "deny"
        assert denied.rule == "Bash(rm *)"
    asked = place.policy("bypassPermissions", ask=["Bash(rm *)"]).decide(tool_named("Python"), {"code": code})
    assert asked.behavior == "ask"


ONLY_LOOKS_LIKE_IT = {
    "variable": "rm = 3\nrm",
    "two-lines": "x = 1\nrm",
    "text": "print('rm x')",
    "method": "frame.rm('x')",
    "assignment": "rm = x",
    "dictionary": "d['rm'] = 1",
    "import": "import rm",
    "percent": "print('%d rm' % 3)",
    "modulo": "a = b %rm",
    "not-equal": "assert x != rm",
    "run-method": "model.run('rm x')",
    "comment": "# !rm x",
}


@for_each_row("code", ONLY_LOOKS_LIKE_IT.values(), ids=ONLY_LOOKS_LIKE_IT.keys())
def test_what_runs_no_shell_is_not_held_to_its_rules(place, code):
    assert (
        place.policy(deny=["Bash(rm *)"], allow=["Python"]).decide(tool_named("Python"), {"code": code}).behavior
        == "allow"
    )


@for_each_row(
    ("code", "rules", "expected"),
    [
        pytest.param("1", {}, "ask", id="asks-whatever-the-code"),
        pytest.param("!ls", {}, "ask", id="asks-for-a-read-only-command-too"),
        pytest.param("1", {"allow": ["Python"]}, "allow", id="allowed"),
        pytest.param("1", {"deny": ["Python"], "allow": ["Python"]}, "deny", id="denied"),
        pytest.param("!ls", {"allow": ["Python"]}, "allow", id="reading-command"),
        pytest.param("!make", {"allow": ["Python"]}, "ask", id="command-that-asks"),
        pytest.param("!make", {"allow": ["Python", "Bash(make *)"]}, "allow", id="command-with-a-rule"),
        pytest.param("!make {target}", {"allow": ["Python", "Bash(make *)"]}, "ask", id="filled-in-later"),
        pytest.param("!make {target}", {"allow": ["Python", "Bash"]}, "allow", id="filled-in-and-all-of-bash"),
        pytest.param("%pip install x", {"deny": ["Bash(pip *)"], "allow": ["Python"]}, "deny", id="pip"),
        pytest.param("%run .env", {"deny": ["Read(.env)"], "allow": ["Python"]}, "deny", id="run-reads"),
        pytest.param("%load .env", {"deny": ["Read(.env)"], "allow": ["Python"]}, "deny", id="load-reads"),
        pytest.param("!cat .env", {"deny": ["Read(.env)"], "allow": ["Python", "Bash"]}, "deny", id="cat-reads"),
        pytest.param(
            "%%writefile src/a.py\nx", {"deny": ["Edit(/src/**)"], "allow": ["Python"]}, "deny", id="writefile"
        ),
        pytest.param("%%writefile a.py\nx", {"allow": ["Python"]}, "ask", id="writefile-asks"),
        pytest.param(
            "!echo x > src/a.py", {"deny": ["Edit(/src/**)"], "allow": ["Python", "Bash"]}, "deny", id="redirect"
        ),
    ],
)
def test_python_and_its_commands(place, code, rules, expected):
    assert place.policy(**rules).decide(tool_named("Python"), {"code": code}).behavior == expected


@for_each_row(
    ("code", "expected"),
    [
        ("!rm -rf /", "ask"),
        ("shutil.rmtree('/')", "ask"),
        ("shutil.rmtree('..')", "ask"),
        ("from pathlib import Path\nPath('/etc').rmdir()", "ask"),
        ("os.removedirs('{home}')", "ask"),
        ("subprocess.run(['rm', '-rf', path])", "ask"),
        ("subprocess.run(['rm', '-rf', 'proj'], cwd='..')", "ask"),
        ("os.chdir('..')\nshutil.rmtree('proj')", "ask"),
        ("%cd ..\n!rm -rf proj", "ask"),
        ("!env -C .. rm -rf proj", "ask"),
        ("shutil.rmtree(os.getcwd())", "ask"),
        ("shutil.rmtree(Path.cwd())", "ask"),
        ("shutil.rmtree(Path.cwd().parent / 'proj')", "ask"),
        ("d = '..'\nshutil.rmtree(d)", "ask"),
        ("for d in ['x', '..']:\n    shutil.rmtree(d)", "ask"),
        ("from shutil import rmtree as r\nr('..')", "ask"),
        ("d = tempfile.mkdtemp()\nshutil.rmtree(d)", "allow"),
        ("shutil.rmtree(tmp)", "allow"),
        ("out = Path.cwd() / 'build'\nshutil.rmtree(out)", "allow"),
        ("os.chdir('src')\nshutil.rmtree('deep')", "allow"),
        ("mv = price / shares\nrm = mv / 2", "allow"),
        ("shutil.rmtree('build')", "allow"),
        ("os.remove('x')", "allow"),
        ("!rm -rf build", "allow"),
        ("Path('x').unlink()", "allow"),
    ],
)
def test_critical_deletes_ask_in_bypass_too(place, code, expected):
    code = place.fill(code)
    assert place.policy("bypassPermissions").decide(tool_named("Python"), {"code": code}).behavior == expected


@pytest.mark.parametrize(
    ("code", "rules"),
    [
        ("%load a.py", {"deny": ["Read(./src/a.py)"]}),
        ("%%writefile a.py\nx", {"deny": ["Edit(./src/a.py)"]}),
        ("!cat a.py", {"deny": ["Read(./src/a.py)"], "allow": ["Bash"]}),
    ],
)
def test_names_in_python_start_where_the_kernel_is(place, code, rules):
    policy = place.policy(**{"allow": ["Python", *rules.pop("allow", ())], **rules})
    assert policy.decide(tool_named("Python"), {"code": code, "cwd": str(place.project / "src")}).behavior == "deny"
    assert policy.decide(tool_named("Python"), {"code": code, "cwd": str(place.project)}).behavior != "deny"


def test_plan_mode_runs_no_python(place):
    assert place.policy("plan", allow=["Python"]).decide(tool_named("Python"), {"code": "!ls"}).behavior == "deny"


def test_the_reason_shows_the_command(place):
    decision = place.policy(allow=["Python"]).decide(tool_named("Python"), {"code": "x = 1\n!make install"})
    assert "`make install`" in decision.reason


PIECES = [
    "!",
    "%",
    "%%",
    "bash",
    "rm x",
    "\n",
    " ",
    "(",
    ")",
    "'",
    '"',
    "os.system",
    "{x}",
    "=",
    "get_ipython()",
    "\\\n",
]


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(max_size=40)))
def test_any_text_is_looked_through(code):
    for use in uses_in(code):
        assert isinstance(use.text, str)


CELLS = ("NotebookRun", "NotebookVerify")


@for_each_row("name", CELLS)
@for_each_row(
    ("rules", "behavior"),
    [
        pytest.param({}, "ask", id="nothing-said"),
        pytest.param({"allow": ["NotebookRun", "NotebookVerify"]}, "allow", id="allowed"),
        pytest.param({"allow": ["Python"]}, "ask", id="python-is-something-else"),
        pytest.param({"allow": ["NotebookRun", "NotebookVerify"], "deny": ["Python"]}, "deny", id="python-denied"),
        pytest.param({"allow": ["NotebookRun", "NotebookVerify"], "ask": ["Python"]}, "ask", id="python-asked"),
        pytest.param({"deny": ["Notebook*"]}, "deny", id="denied"),
        pytest.param({"mode": "plan"}, "deny", id="plan"),
        pytest.param({"mode": "bypassPermissions"}, "allow", id="bypassed"),
        pytest.param({"mode": "acceptEdits"}, "ask", id="no-edit"),
    ],
)
def test_cells_that_are_run_are_judged_as_python(place, name, rules, behavior):
    assert place.policy(**rules).decide(tool_named(name), {"codes": ["x = 1"]}).behavior == behavior


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_every_cell_that_would_run_is_looked_into(place, name, mode):
    policy = place.policy(mode, deny=["Bash(rm *)"], allow=list(CELLS))
    assert policy.decide(tool_named(name), {"codes": ["x = 1", "!ls"]}).behavior == "allow"
    denied = policy.decide(tool_named(name), {"codes": ["x = 1", "%%bash\nrm x"]})
    assert (denied.behavior, denied.rule) == ("deny", "Bash(rm *)")


@pytest.mark.parametrize("name", CELLS)
def test_cells_that_nobody_could_read_are_asked_for_in_every_mode(place, name):
    assert place.policy("bypassPermissions", allow=list(CELLS)).decide(tool_named(name), {}).behavior == "ask"


@pytest.mark.parametrize("name", CELLS)
def test_cells_are_allowed_for_the_session_only(place, name):
    offered = place.policy().decide(tool_named(name), {"codes": ["1"]}).suggestions
    assert [(each.rules, each.scope) for each in offered] == [((name,), "session")]
