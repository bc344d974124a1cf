"""What the operating system can bound needs no question: what runs confined, in which bounds, and what still asks."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from declared_tools import tool_named
from eventual import paces
from everyday_commands import asking, reading, tried
from row_tables import for_each_row

ALL = SandboxAbilities(name="test", hides=True, protects=True, hosts=True, protects_patterns=True)
PLACES = structs.replace(ALL, protects_patterns=False)
SHARE_THAT_ASKS = 0.03


@pytest.fixture
def repository(place):
    subprocess.run(["git", "init", "-q", str(place.project)], check=True)
    (place.home / "outside.txt").write_text("x", "utf-8")
    return place


def policy(place: Any, mode: str = "default", sandbox: SandboxRules | None = None, **rules: Any) -> PermissionPolicy:
    made = place.policy(mode, **rules)
    return replace(made, sandbox=SandboxRules(means=ALL) if sandbox is None else sandbox)


def decide(place: Any, command: str, mode: str = "default", **more: Any) -> Decision:
    own = {key: more.pop(key) for key in ("run_in_background", "environment_variables", "cwd") if key in more}
    if more.pop("unconfined", False):
        own["dangerouslyDisableSandbox"] = True
    return policy(place, mode, **more).decide(tool_named("Bash"), {"command": place.fill(command), **own})


def outcome(decision: Decision) -> str:
    """`allow`, `ask`, `deny`, and how it runs: read, write or free."""
    if decision.behavior == "deny":
        return "deny"
    bounds = decision.confinement
    how = "free" if bounds is None else "write" if bounds.write else "read"
    return f"{decision.behavior} {how}"


BESIDE_EXCLUDED = (
    *("timeout 5 docker ps | head -3", "cd src && docker build .", "sudo docker ps", "DOCKER_HOST=x docker ps"),
    *("bash -c 'docker ps'", "docker run \\\n -v $PWD:/x a 'b; c'", "for i in 1 2; do docker ps -f $i; done"),
)
AROUND_EXCLUDED = (
    *("false && docker ps; make all", "docker ps; make all", "echo '\ndocker ps'; make all", "make '\ndocker ps'"),
    *("cat <<E\ndocker ps\nE\nmake all", "docker() { make all; }; docker ps", "PATH=.:$PATH docker ps"),
    *("x=make; docker ps && $x all", "docker ps | sh", "docker ps $(make all)", "make all `docker ps`"),
)


def on_places() -> SandboxRules:
    return SandboxRules(means=PLACES, enabled=True)


def on(**settings: Any) -> SandboxRules:
    return SandboxRules(means=ALL, enabled=True, **settings)


def test_everyday_commands_run_unasked_where_there_is_a_sandbox(repository, capsys):
    def asked(sandbox: SandboxRules) -> list[str]:
        judge = policy(repository, sandbox=sandbox)
        decisions = {each: judge.decide(tool_named("Bash"), {"command": each}) for each in reading()}
        return [each for each, decision in decisions.items() if decision.behavior != "allow"]

    commands = reading()
    confined, without = asked(SandboxRules(means=ALL)), asked(SandboxRules())
    assert len(set(commands)) == len(commands) >= 250
    with capsys.disabled():
        print(f"\nof {len(commands)} reading commands ask: {len(confined)} with a sandbox, {len(without)} without one")
    for each in commands:  # seen with `-rP`
        print(
            f"{'asks' if each in confined else 'runs'} with a sandbox, {'asks' if each in without else 'runs'} alone: {each}"
        )
    assert len(confined) < SHARE_THAT_ASKS * len(commands), confined
    assert len(without) > len(confined)


def test_what_does_more_than_read_is_asked_for(repository):
    commands = asking()
    assert len(set(commands)) == len(commands) >= 80
    assert [each for each in commands if outcome(decide(repository, each)) != "ask free"] == []
    assert [each for each in commands if decide(repository, each, mode="dontAsk").behavior != "deny"] == []
    assert [each for each in commands if decide(repository, each, mode="plan").behavior == "allow"] == []


def test_what_may_do_anything_is_tried_in_bounds_for_reading(repository):
    for mode in ("default", "plan", "dontAsk"):
        wrong = [each for each in tried() if outcome(decide(repository, each, mode)) != "allow read"]
        assert wrong == [], mode
    assert [each for each in tried() if not decide(repository, each).trial] == []
    # asked about as ever: if the trial was not enough, without a sandbox, and if a rule asks before
    second, without = policy(repository).without_trials(), policy(repository, sandbox=SandboxRules())
    for judge in (second, without, policy(repository, ask=["Bash"])):
        wrong = [each for each in tried() if judge.decide(tool_named("Bash"), {"command": each}).behavior != "ask"]
        assert wrong == []


TRIALS = r"""
pip cache list
pip hash a.whl
uv tree
uv run pytest -q
poetry run pytest
conda run -n base python x.py
dpkg -l
rpm -qa
apt list --installed
brew list
npx tsc --noEmit
npm run lint
yarn lint
pnpm test
docker run --help
pip install --help
mlflow experiments search
tensorboard --inspect --logdir x
python manage.py showmigrations
python -m pylint src
pylint src
coverage report
R -q -e '1'
sqlite3 data/app.db < query.sql
prettier --check src
tsc --noEmit
autopep8 --diff src/a.py
rsync -an src/ out/
git lfs --version
go vet ./...
make lint
"""
ASKED_AT_ONCE = r"""
pip install x
pip3 download x
pip list --outdated
python -m pip install x
python -m venv .venv
python -m http.server
python manage.py runserver
uv add x
uv sync
uv pip install x
poetry add x
apt install x
apt-get update
dpkg -i x.deb
brew install x
conda install x
npm install
npm ci
npm start
npm run dev
yarn
yarn add x
pnpm dev
docker ps
kubectl get pods
jupyter lab
jupyter notebook
jupyter nbconvert --execute --to notebook --stdout nb.ipynb
mlflow ui
tensorboard --logdir x
streamlit run app.py
curl https://example.com | python
python x.py && git push
python x.py | tee out.txt
python x.py > out.txt
make
cargo build
gcc a.c
convert a.png b.png
sqlite3 data/app.db "update users set a = 1"
rsync -a src/ out/
rsync -an src/ host:out/
prettier --write src
sudo python x.py
timeout 5 curl https://example.com
nohup python x.py &
bash -c 'python x.py & wait'
"""


def test_a_program_that_would_only_fail_is_asked_about_at_once(repository):
    def uses(text: str, *, trial: bool) -> list[str]:
        decisions = {each: decide(repository, each) for each in text.strip().splitlines()}
        expected = ("allow", True) if trial else ("ask", False)
        return [each for each, decision in decisions.items() if (decision.behavior, decision.trial) != expected]

    assert uses(TRIALS, trial=True) == []
    assert uses(ASKED_AT_ONCE, trial=False) == []


@for_each_row(
    ("mode", "command", "expected"),
    [
        ("default", "ls", "allow read"),
        ("plan", "ls", "allow read"),
        ("plan", "awk '{print $2}' notes.txt", "allow read"),
        ("dontAsk", "find . -name x -exec wc -l {} +", "allow read"),
        ("acceptEdits", "jq . notes.txt", "allow read"),
        ("bypassPermissions", "ls", "allow free"),
        ("default", "awk '{print}' notes.txt > out", "ask free"),
        ("default", "awk '{print}' notes.txt > /dev/null 2>&1", "allow read"),
        # changes: the mode's, in its folders
        ("acceptEdits", "awk '{print}' notes.txt > out", "allow write"),
        ("acceptEdits", "mkdir -p new && cp --preserve=all notes.txt new", "allow write"),
        ("acceptEdits", "touch new", "allow write"),
        ("acceptEdits", "for f in *.txt; do cp $f $f.bak; done", "allow write"),
        ("acceptEdits", "sed -i.bak -f x.sed notes.txt", "allow write"),
        ("acceptEdits", "tar xzf a.tgz", "allow write"),
        ("acceptEdits", "dd if=notes.txt of=copied", "allow write"),
        ("acceptEdits", "ruff format src && isort src", "allow write"),
        ("acceptEdits", "echo x > ~/out", "ask free"),
        ("acceptEdits", "cp -t ~/outside notes.txt", "ask free"),
        ("acceptEdits", "mv notes.txt ../outside/", "ask free"),
        ("acceptEdits", "echo x > .git/config", "ask free"),
        ("acceptEdits", "cp --backup notes.txt .envrc", "ask free"),
        ("acceptEdits", "chmod +x .git/hooks/pre-commit", "ask free"),
        ("acceptEdits", "git commit -am x", "ask free"),
        ("acceptEdits", "rm -rf ..", "ask free"),
        ("acceptEdits", "ls | xargs rm -rf", "ask free"),
        ("acceptEdits", "curl https://example.com > x", "ask free"),
        ("acceptEdits", "python x.py", "allow write"),
        ("acceptEdits", "mkdir -p new && python x.py > new/out", "allow write"),
        ("acceptEdits", "python x.py > ~/out", "ask free"),
        ("default", "python x.py > out", "ask free"),
    ],
)
def test_modes(repository, mode, command, expected):
    assert outcome(decide(repository, command, mode)) == expected


@for_each_row(
    ("rules", "command", "expected"),
    [
        # a command that a rule allows runs as it did
        ({"allow": ["Bash(ls *)"]}, "ls -la", "allow free"),
        ({"allow": ["Bash"]}, "ls -la", "allow free"),
        ({"allow": ["Bash(make *)"]}, "make all", "allow free"),
        ({"allow": ["Bash(make *)"]}, "make all | head", "allow free"),
        ({"allow": ["Bash(make *)"]}, "make all | perl -pe 1", "ask free"),
        ({"allow": ["Bash(git log *)"]}, "git log | gawk '/x/{print $1}'", "allow read"),
        ({"allow": ["Edit(out.txt)"]}, "ls > out.txt", "allow free"),
        ({"allow": ["Read(~/outside/**)"]}, "cat ~/outside/data.csv", "allow read"),
        # rules that restrict stay in front
        ({"deny": ["Bash(awk *)"]}, "awk 1 notes.txt", "deny"),
        ({"deny": ["Bash(xargs *)"]}, "ls | xargs wc", "deny"),
        ({"deny": ["Read(.env)"]}, "awk 1 .env", "deny"),
        ({"ask": ["Bash(awk *)"]}, "awk 1 notes.txt", "ask free"),
        ({"ask": ["Bash"]}, "ls", "ask free"),
        ({"ask": ["Read(notes.txt)"]}, "awk 1 notes.txt", "ask free"),
        ({"deny": ["Read(.env)"]}, "git show HEAD", "ask free"),
        # files are hidden, so that nothing has to be looked through
        ({"deny": ["Read(.env)"]}, "find . -type f | xargs cat", "allow read"),
        ({"ask": ["Read(.env)"]}, "tar cf - . | wc -c", "allow read"),
        # what only reads changes nothing
        ({"deny": ["Edit(src/**)"]}, "awk 1 src/a.py", "allow read"),
    ],
)
def test_rules(repository, rules, command, expected):
    assert outcome(decide(repository, command, **rules)) == expected


@for_each_row(
    ("rules", "mode", "command", "expected"),
    [
        # nothing that a rule hides may be shown by a sandbox that cannot hide single files
        ({"deny": ["Read(.env)"]}, "default", "awk '{print $(1)}' notes.txt", "ask free"),
        ({"deny": ["Read(.env)"]}, "default", "ls", "allow free"),
        ({"deny": ["Read(~/outside/**)"]}, "default", "awk '{print $(1)}' notes.txt", "allow read"),
        ({}, "default", "awk '{print $(1)}' notes.txt", "allow read"),
        # what cannot protect changes nothing unasked but what is known to change nothing protected, in the folders of that
        ({}, "acceptEdits", "touch new", "allow write"),
        ({}, "acceptEdits", "tar xf a.tar", "ask free"),
    ],
)
def test_what_a_sandbox_cannot_enforce_is_decided_as_without(repository, rules, mode, command, expected):
    abilities = SandboxAbilities(name="weak", hides=False, protects=False, hosts=False)
    assert outcome(decide(repository, command, mode, sandbox=SandboxRules(means=abilities), **rules)) == expected


@for_each_row(
    ("sandbox", "mode", "rules", "command", "expected"),
    [
        (on(), "default", {}, "make all", "allow write"),
        (on(), "default", {}, "ls", "allow read"),
        (on(), "default", {}, "git commit -m x", "allow write"),
        (on(), "plan", {}, "make all", "deny"),
        (on(), "plan", {}, "gawk 1 notes.txt", "allow read"),
        (on(), "default", {"allow": ["Bash(make *)"]}, "make all", "allow write"),
        (on(), "default", {"allow": ["Bash"]}, "ls", "allow write"),
        (on(), "bypassPermissions", {}, "make all", "allow write"),
        (on(auto_allow=False), "default", {}, "make all", "ask write"),
        (on(auto_allow=False), "default", {}, "gawk 1 notes.txt", "allow read"),
        # rules and critical deletes
        (on(), "default", {"deny": ["Bash(make *)"]}, "make all", "deny"),
        (on(), "default", {"ask": ["Bash(make *)"]}, "make all", "ask write"),
        (on(), "default", {"ask": ["Bash"]}, "make all", "allow write"),
        (on(auto_allow=False), "default", {"ask": ["Bash"]}, "ls", "ask write"),
        (on(), "default", {"ask": ["Bash(run_in_background:true)"]}, "make all", "allow write"),
        (on(), "default", {}, "rm -rf ~", "ask write"),
        # what is not bash, or has what nobody sees
        (on(), "default", {}, "make 'all", "ask write"),
        (on(), "default", {}, "make\u200b all", "ask write"),
        (on(), "default", {}, "cat ~/outside.txt", "ask write"),
        # never confined
        (on(excluded=("docker *",)), "default", {}, "docker ps", "ask free"),
        (on(excluded=("Bash(docker *)",)), "default", {}, "ls && docker ps", "ask free"),
        (on(excluded=("docker *",)), "default", {"allow": ["Bash(docker *)"]}, "docker ps", "allow free"),
        (on(excluded=("docker *",)), "default", {}, "make all", "allow write"),
        *(
            (on(excluded=("docker *",)), "default", {"allow": ["Bash"]}, command, f"allow {how}")
            for how, commands in {"free": BESIDE_EXCLUDED, "write": AROUND_EXCLUDED}.items()
            for command in commands
        ),
        (SandboxRules(enabled=True), "default", {}, "make all", "ask free"),
    ],
)
def test_a_sandbox_for_every_command(repository, sandbox, mode, rules, command, expected):
    assert outcome(decide(repository, command, mode, sandbox=sandbox, **rules)) == expected


@for_each_row(
    ("sandbox", "mode", "rules", "command", "expected"),
    [
        (SandboxRules(means=ALL), "default", {}, "gawk 1 notes.txt", "ask free"),
        (SandboxRules(means=ALL), "default", {}, "ls", "ask free"),
        (SandboxRules(means=ALL), "default", {}, "make", "ask free"),
        (SandboxRules(means=ALL), "default", {"allow": ["Bash(ls *)"]}, "ls", "allow free"),
        (SandboxRules(means=ALL), "default", {"deny": ["Bash(ls *)"]}, "ls", "deny"),
        (SandboxRules(means=ALL), "dontAsk", {}, "ls", "deny"),
        (SandboxRules(), "default", {}, "ls", "allow free"),
        (on(), "default", {}, "make", "ask free"),
        (on(), "default", {"ask": ["Bash(make *)"]}, "make x", "ask free"),
        (on(), "default", {"allow": ["Bash(make *)"]}, "make", "allow free"),
        (on(allow_unsandboxed=False), "default", {}, "make", "allow write"),
        (SandboxRules(means=ALL, allow_unsandboxed=False), "default", {}, "gawk 1 notes.txt", "allow read"),
    ],
)
def test_claude_asks_to_run_it_unconfined(repository, sandbox, mode, rules, command, expected):
    decision = decide(repository, command, mode, sandbox=sandbox, unconfined=True, **rules)
    assert outcome(decision) == expected
    if decision.behavior == "ask" and command != "make":
        assert "unconfined" in decision.reason


def test_the_bounds_of_what_reads(repository):
    rules = SandboxRules(
        means=ALL, deny_read=(str(repository.project / "secrets"),), allow_read=(str(repository.home / "shared"),)
    )
    bounds = decide(repository, "gawk 1 notes.txt", sandbox=rules, deny=["Read(*.pem)"], ask=["Read(.env)"]).confinement
    assert bounds is not None
    assert str(repository.project) in bounds.read
    assert str(repository.home / "shared") in bounds.read
    assert bounds.hidden == (str(repository.project / "secrets"),)
    assert (bounds.write, bounds.hosts, bounds.any_host) == ((), None, False)
    assert bounds.hides is not None
    hidden = [
        name for name in ("a.pem", "src/.env", ".env", "notes.txt") if bounds.hides(str(repository.project / name))
    ]
    assert hidden == ["a.pem", "src/.env", ".env"]


def test_a_home_folder_as_project_shows_no_secrets(repository):
    (repository.home / ".ssh").mkdir()
    made = PermissionPolicy(roots=[repository.home], cwd=repository.home, sandbox=SandboxRules(means=ALL))
    bounds = made.decide(tool_named("Bash"), {"command": "gawk 1 x"}).confinement
    assert bounds is not None
    assert str(repository.home / ".ssh") in bounds.hidden
    weak = structs.replace(ALL, hides=False)
    made = replace(made, sandbox=SandboxRules(means=weak))
    assert made.decide(tool_named("Bash"), {"command": "gawk '{print $(1)}' x"}).behavior == "ask"


def test_the_bounds_of_what_changes_files(repository):
    rules = SandboxRules(means=ALL, deny_write=(str(repository.project / "data"),))
    project = repository.project
    named = decide(repository, "touch a b", "acceptEdits", sandbox=rules, deny=["Edit(*.lock)"]).confinement
    assert named is not None
    assert named.protects is None
    assert str(project) in named.write
    assert {str(project / ".git"), str(project / "data"), str(project / ".mcp.json")} <= set(named.protected)
    # where names show only when it runs, each is judged before it is made
    bounds = decide(repository, "tar xzf a.tgz", "acceptEdits", sandbox=rules, deny=["Edit(*.lock)"]).confinement
    assert bounds is not None
    assert bounds.protects is not None
    assert str(project) in bounds.write
    assert {str(project / ".git"), str(project / "data")} <= set(bounds.protected)
    assert str(project / ".mcp.json") not in bounds.protected
    names = (".git/HEAD", "src/.envrc", "uv.lock", "src/.claude/settings.json", "src/new.py")
    assert [bounds.protects(str(project / name)) for name in names] == [True, True, True, True, False]


def test_a_sandbox_that_protects_places_alone_gets_those_that_are_there(repository):
    inner = repository.project / "src" / ".claude"
    inner.mkdir()
    rules = SandboxRules(means=PLACES)
    bounds = decide(repository, "touch a b", "acceptEdits", sandbox=rules).confinement
    assert bounds is not None
    assert bounds.protects is None
    assert {str(inner), str(repository.project / ".git"), str(repository.project / ".envrc")} <= set(bounds.protected)
    # names that show only when it runs are asked for
    assert outcome(decide(repository, "tar xzf a.tgz", "acceptEdits", sandbox=rules)) == "ask free"


def test_the_bounds_where_the_sandbox_is_on(repository):
    rules = on(allow_write=("/scratch",), allowed_hosts=("pypi.org", "*.example.com"))
    bounds = decide(repository, "make", sandbox=rules).confinement
    assert bounds is not None
    assert {str(repository.project), "/scratch"} <= set(bounds.write)
    assert bounds.hosts == ("pypi.org", "*.example.com")
    assert "/" not in bounds.read
    # a commit needs the repository's data; what steers git is nobody's to change
    git = repository.project / ".git"
    assert {str(git / name) for name in ("hooks", "config")} <= set(bounds.protected)
    assert not {str(git), str(git / "index"), str(git / "refs")} & set(bounds.protected)
    # what is not there yet is judged before it is made
    assert bounds.protects is not None
    names = ("src/.git/hooks/x", "src/.envrc", ".git/commondir", ".git/index", ".git/objects/ab/c", "src/new.py")
    protected = [bounds.protects(str(repository.project / name)) for name in names]
    assert protected == [True, True, True, False, False, False]
    assert bounds.unstaged == ("/scratch",)
    background = decide(repository, "make", sandbox=rules, run_in_background=True)
    assert (background.behavior, "in the background" in background.reason) == ("ask", True)
    assert decide(repository, "gawk 1 x", sandbox=rules, run_in_background=True).behavior == "allow"
    assert decide(repository, "make", sandbox=on_places()).behavior == "ask", "what is not there yet cannot be held"
    asked = decide(repository, "make", sandbox=on(auto_allow=False)).confinement
    assert asked is not None
    assert asked.read == ("/",)
    weak = structs.replace(on(auto_allow=False), means=structs.replace(ALL, protects=False, hosts=False))
    asked = decide(repository, "make", sandbox=weak).confinement
    assert asked is not None
    assert (asked.protected, asked.hosts, asked.any_host) == ((), None, True)


def test_git_reads_its_repository_from_a_folder_in_it(repository):
    inner = PermissionPolicy(
        roots=[repository.project / "src"], cwd=repository.project / "src", sandbox=SandboxRules(means=ALL)
    )
    for tool, given in (("Bash", {"command": "git log"}), ("Git", {"subcommand": "log", "path": "."})):
        bounds = inner.decide(tool_named(tool), given).confinement
        assert bounds is not None
        assert str(repository.project.resolve()) in bounds.read
        assert not bounds.write


def test_a_repository_that_says_it_is_elsewhere_shows_nothing_there(repository):
    private = repository.home / "private"
    private.mkdir()
    folder = repository.project / "src"
    (folder / ".git").write_text(f"gitdir: {private}\n", "utf-8")
    made = PermissionPolicy(roots=[folder], cwd=folder, sandbox=SandboxRules(means=ALL))
    bounds = made.decide(tool_named("Bash"), {"command": "git log -p"}).confinement
    assert bounds is None or str(private) not in bounds.read


@for_each_row(
    ("tool", "given", "sandbox", "expected"),
    [
        ("Lint", {"runs_project_code": False}, SandboxRules(means=ALL), "allow read"),
        ("Lint", {"runs_project_code": True}, SandboxRules(means=ALL), "ask free"),
        ("Lint", {"runs_project_code": False, "fix": True}, SandboxRules(means=ALL), "ask free"),
        ("RunTests", {}, SandboxRules(means=ALL), "ask free"),
        ("RunTests", {}, on(), "ask write"),
        ("Git", {"subcommand": "status"}, SandboxRules(means=ALL), "allow read"),
        ("Git", {"subcommand": "status"}, SandboxRules(), "allow free"),
    ],
)
def test_tools_that_start_programs(repository, tool, given, sandbox, expected):
    assert outcome(policy(repository, sandbox=sandbox).decide(tool_named(tool), {"path": ".", **given})) == expected


def test_nothing_confines_the_kernel(repository):
    given = {"code": "!gawk '{print $(1)}' notes.txt"}
    assert "no sandbox" in policy(repository).decide(tool_named("Python"), given).reason
    # allowed Python is held to what commands may do without a sandbox: there is none for it
    decision = policy(repository, allow=["Python"]).decide(tool_named("Python"), given)
    assert (decision.behavior, decision.confinement) == ("ask", None)


def test_a_projects_own_code_is_confined_where_the_sandbox_is_on(repository):
    assert policy(repository).confinement_for_project_code() is None
    bounds = policy(repository, sandbox=on()).confinement_for_project_code()
    assert bounds is not None
    assert str(repository.project) in bounds.write


def test_a_decision_takes_no_time(repository):
    judge = policy(repository, deny=["Read(.env)"])
    commands = list(reading())

    def decide_each() -> None:
        for command in commands:
            judge.decide(tool_named("Bash"), {"command": f"{command} "})

    decide_each()  # what is imported with the first
    most = 0.8 * len(commands)
    assert paces(decide_each, most) < most


@for_each_row(
    ("command", "beside"),
    [
        ("awk '{print $1}' src/a.py", True),
        ("cat src/a.py", True),
        ("find . -name '*.py' | xargs wc -l", True),
        # they may write where all commands of the session do
        ('awk \'{print > ENVIRON["TMPDIR"] "/a"}\' src/a.py', False),
        ("mktemp", False),
        ("awk 1 src/a.py && cd src", False),
        # a grammar alone has read these: where the shell ends is not known
        ("[[ -f src/a.py ]] && awk 1 src/a.py", False),
    ],
)
def test_what_cannot_change_anything_runs_beside_others(repository, command, beside):
    decision = decide(repository, command)
    assert outcome(decision) == "allow read"
    assert decision.works_beside is beside


def test_what_the_sandbox_lets_write_runs_alone(repository):
    assert not decide(repository, "python build.py", sandbox=on()).works_beside
    assert not decide(repository, "touch src/new.py", "acceptEdits").works_beside


@for_each_row(
    ("command", "expected"),
    [
        ("git clone https://example.org/x", "ask"),
        ("git init sub", "ask"),
        ("cd src && git -c a.b=c submodule update --init", "ask"),
        ("git config user.name x", "ask"),
        ("git remote add o x", "ask"),
        ("npm ci --silent", "ask"),
        ("python3 -m venv env", "ask"),
        ("uv venv", "ask"),
        ("echo x > .envrc", "ask"),
        ("touch src/.claude/x", "ask"),
        ("git fetch", "allow"),
        ("git commit -m init", "allow"),
        ("npm test", "allow"),
        ("python3 -m pytest", "allow"),
        ("echo x > notes.md", "allow"),
    ],
)
def test_what_is_known_to_make_protected_files_asks_at_once(repository, command, expected):
    decision = decide(repository, command, sandbox=on())
    assert decision.behavior == expected
    assert ("protected" in decision.reason) == (expected == "ask")
