"""Plugins and marketplaces as their authors lay them out: what is read, what is refused, what an update asks again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cellwright.config.hooks.hooks_in_force import plugin_hooks
from cellwright.config.mcp.servers import ServerOrigin, read_entries
from cellwright.config.plugins import installed_plugins as store
from cellwright.config.plugins.install import PluginInstaller, PluginOffer, PluginRules, what_it_brings
from cellwright.config.plugins.installed_plugins import find_plugins, parse_source, read_source
from cellwright.config.plugins.plugin import Plugin, copy_files, digest_of, read_plugin
from cellwright.errors import CellwrightError
from row_tables import for_each_row

HOOKS = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/check"}]}]}
MANIFEST = ".claude-plugin/plugin.json"


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return folder


def demo(folder: Path, version: str = "1.0") -> Path:
    return write(
        folder,
        {
            MANIFEST: {"name": "demo", "version": version, "description": "Shows it."},
            "skills/hello/SKILL.md": "---\ndescription: Greet.\n---\nHello from ${CLAUDE_PLUGIN_ROOT}.",
            "commands/bye.md": "Bye $0.",
            "agents/helper.md": "---\nname: helper\ndescription: Helps.\n---\nIn ${CLAUDE_PLUGIN_ROOT}.",
            "hooks/hooks.json": {"description": "checks", "hooks": HOOKS},
            ".mcp.json": {"mcpServers": {"data": {"command": "${CLAUDE_PLUGIN_ROOT}/serve", "args": ["--x"]}}},
            "output-styles/short.md": "Be short.",
            "check": "#!/bin/sh\n",
        },
    )


def read(folder: Path, **more: Any) -> Plugin:
    return read_plugin(folder, "local", folder.parent / "data", **more)


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    found = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return found.stdout.strip()


def committed(folder: Path) -> Path:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def installer(tmp_path: Path) -> PluginInstaller:
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    return PluginInstaller(tmp_path / "home" / ".claude" / "settings.json", environ, tmp_path)


def offered(installer: PluginInstaller, words: str) -> PluginOffer:
    return asyncio.run(installer.offer(words))


def taken(installer: PluginInstaller, words: str) -> str:
    offer = offered(installer, words)
    installer.keep(offer)
    return offer.plugin.id


def enabled(installer: PluginInstaller) -> dict[str, bool]:
    found: dict[str, bool] = json.loads(installer.settings_file.read_text())["enabledPlugins"]
    return found


def test_a_plugin_is_read_whole(tmp_path: Path) -> None:
    plugin = read(demo(tmp_path / "demo"))
    assert (plugin.id, plugin.version, plugin.description) == ("demo@local", "1.0", "Shows it.")
    assert plugin.hooks == HOOKS
    assert plugin.mcp_servers == {
        "plugin:demo:data": {"command": f"{tmp_path / 'demo'}/serve", "args": ["--x"]},
    }
    assert [path.name for path in (*plugin.skills, *plugin.commands, *plugin.agents, *plugin.output_styles)] == [
        *("skills", "commands", "agents", "output-styles"),
    ]
    assert what_it_brings(plugin, plugin.root) == [
        "hook PreToolUse (Bash): runs ${CLAUDE_PLUGIN_ROOT}/check",
        "MCP server plugin:demo:data\n    runs: ${CLAUDE_PLUGIN_ROOT}/serve --x",
        *("skills: hello", "commands: bye", "agents: helper", "output styles: short"),
    ]


@for_each_row(
    "manifest, told",
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ({"name": "../x"}, "its name is"),
        ({"name": ""}, ""),
        ({"name": "x", "skills": "../elsewhere"}, "stay inside of the plugin"),
        ({"name": "x", "commands": "/etc"}, "stay inside of the plugin"),
        ({"name": "x", "hooks": "./a/../../b.json"}, "stay inside of the plugin"),
        ({"name": "x", "agents": 3, "mcpServers": [4, None]}, ""),
        ({"name": "x", "hooks": {"PreToolUse": "no"}, "version": 2, "lspServers": {}}, ""),
        ("\ufeff" + '{"name": "größe"}', "its name is"),
        ('{\r\n "name": "crlf",\r\n "description": "größe ✓"\r\n}\r\n', ""),
    ],
)
def test_manifests_are_read_or_refused_with_words(tmp_path: Path, manifest: Any, told: str) -> None:
    folder = write(tmp_path / "x", {MANIFEST: manifest})
    if not told:
        read(folder)
        return
    with pytest.raises(CellwrightError) as caught:
        read(folder)
    assert told in caught.value.message


def test_paths_of_a_manifest_come_besides_the_usual_ones(tmp_path: Path) -> None:
    folder = demo(tmp_path / "demo")
    write(
        folder,
        {
            MANIFEST: {
                "name": "demo",
                "commands": ["./more/one.md"],
                "hooks": ["./h.json"],
                "skills": ["./gone"],
            },
            "more/one.md": "One.",
            "h.json": {"Stop": [{"hooks": []}]},
        },
    )
    plugin = read(folder)
    assert [path.name for path in plugin.commands] == ["commands", "one.md"]
    assert sorted(plugin.hooks) == ["PreToolUse", "Stop"]
    assert ["./gone" in problem for problem in plugin.problems] == [True]


ASKS = {
    "endpoint": {"type": "string", "title": "Endpoint", "description": "Where it is.", "default": "https://x.example"},
    "token": {"type": "string", "sensitive": True, "required": True},
    "limit": {"type": "number"},
}


def asking(folder: Path) -> Path:
    serves = {"command": "serve", "args": ["${user_config.endpoint}"], "env": {"TOKEN": "${user_config.token}"}}
    hooks = [
        {"type": "command", "command": "check", "args": ["--limit", "${user_config.limit}"]},
        {"type": "command", "command": "echo ${user_config.limit}"},
    ]
    manifest = {
        "name": "asks",
        "userConfig": ASKS,
        "mcpServers": {"data": serves, "plain": {"command": "x"}},
        "hooks": {"Stop": [{"hooks": hooks}]},
    }
    return write(folder, {MANIFEST: manifest})


def test_what_a_plugin_asks_for_is_put_into_its_servers_and_hooks_and_no_text(own_place: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    installer = PluginInstaller(settings, os.environ, tmp_path)
    installer.keep(asyncio.run(installer.offer(str(asking(tmp_path / "asks")))))

    def found() -> Plugin:
        said = json.loads(settings.read_text())
        return find_plugins(said["enabledPlugins"], configs=said.get("pluginConfigs")).plugins["asks@local"]

    plugin = found()
    assert list(plugin.mcp_servers) == ["plugin:asks:plain"]
    waits, unsafe, wants = sorted(plugin.problems, key=lambda each: ("the server", "shell", "it needs").index(
        next(word for word in ("the server", "shell", "it needs") if word in each)
    ))  # fmt: skip
    assert waits.startswith("the server 'data'")
    assert "$CLAUDE_PLUGIN_OPTION_NAME" in unsafe
    assert wants.startswith("it needs token")
    options = {option.name: option for option in plugin.options}
    for name, text in (("limit", "many"), ("token", "two\nlines"), ("endpoint", " ")):
        with pytest.raises(CellwrightError, match=f"{name} takes "):
            installer.answer("asks@local", options[name], text)
    assert installer.answer("asks@local", options["limit"], "5") == "in your settings"
    assert "only you" in installer.answer("asks@local", options["token"], "s3cret-token")
    assert "s3cret-token" not in settings.read_text()
    plugin = found()
    origin = ServerOrigin(scope="plugin", label="asks", cwd=tmp_path, variables=plugin.references)
    server = read_entries(plugin.mcp_servers, origin, {}).entries["plugin:asks:data"]
    assert (server.args, server.env) == (("https://x.example",), {"TOKEN": "s3cret-token"})
    assert server.address == "serve ${user_config.endpoint}", "what is shown is as it is written"
    assert plugin.hook_variables["CLAUDE_PLUGIN_OPTION_LIMIT"] == "5"
    assert plugin.hook_variables["user_config.limit"] == "5"
    assert "s3cret-token" not in str(plugin.variables), "texts that Claude reads have none of it"
    assert [each["command"] for group in plugin.hooks["Stop"] for each in group["hooks"]] == ["check"]
    kept = next(store.plugins_folder().glob("options.json"))
    assert kept.stat().st_mode & 0o077 == 0
    installer.remove("asks@local")
    assert "s3cret-token" not in kept.read_text()
    assert "asks" not in settings.read_text()


def _outside(folder: Path) -> None:
    (folder / "link").symlink_to("../../secret")


def _absolute(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "check")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


@for_each_row("damage", [_outside, _absolute, _pipe])
def test_files_that_leave_the_plugin_refuse_it(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = demo(tmp_path / "demo")
    damage(folder)
    with pytest.raises(CellwrightError, match="is not taken"):
        copy_files(folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_copy_has_the_same_hash_and_a_change_another(tmp_path: Path) -> None:
    folder = demo(tmp_path / "demo")
    (folder / "also").symlink_to("check")
    copy_files(folder, tmp_path / "copy")
    before = digest_of(folder)
    assert digest_of(tmp_path / "copy") == before
    (folder / "check").chmod(0o755)
    assert digest_of(folder) != before


def test_what_is_installed_counts_until_somebody_changes_it(tmp_path: Path, installer: PluginInstaller) -> None:
    demo(tmp_path / "demo")
    plugin_id = taken(installer, "./demo")
    assert enabled(installer) == {"demo@local": True}
    (plugin,) = find_plugins(enabled(installer)).plugins.values()
    assert plugin.root.is_relative_to(store.plugins_folder())
    assert plugin.data.is_dir()
    (plugin.root / "check").write_text("#!/bin/sh\nevil\n")
    found = find_plugins(enabled(installer))
    assert (found.plugins, "those that you" in found.left_out[plugin_id]) == ({}, True)


def test_an_update_is_asked_about_when_files_differ(tmp_path: Path, installer: PluginInstaller) -> None:
    demo(tmp_path / "demo")
    taken(installer, "./demo")
    same = asyncio.run(installer.offer_update("demo@local"))
    installer.discard(same)
    assert not same.is_new
    (tmp_path / "demo" / "hooks" / "hooks.json").write_text(json.dumps({"hooks": {"Stop": []}}))
    changed = asyncio.run(installer.offer_update("demo@local"))
    assert changed.is_new
    assert list(find_plugins(enabled(installer)).plugins["demo@local"].hooks) == ["PreToolUse"]
    installer.keep(changed)
    assert list(find_plugins(enabled(installer)).plugins["demo@local"].hooks) == ["Stop"]


SENDING = {
    "Stop": [
        {
            "hooks": [
                {
                    "type": "http",
                    "url": "https://x.example/told",
                    "headers": {"Authorization": "Bearer $DEMO_TOKEN"},
                    "allowedEnvVars": ["DEMO_TOKEN", "OTHER_TOKEN"],
                }
            ]
        }
    ]
}


def sources(installer: PluginInstaller, project: Path, brought: tuple[str, ...] = ()) -> list[frozenset[str] | None]:
    found = find_plugins(enabled(installer)).plugins.values()
    return [source.secrets for source in plugin_hooks(found, project, brought)]


def test_a_plugins_hooks_get_the_secrets_that_consent_named(tmp_path: Path, installer: PluginInstaller) -> None:
    folder = write(demo(tmp_path / "demo"), {"hooks/hooks.json": {"hooks": SENDING}})
    shown = "\n".join(what_it_brings(read(folder), folder, {"DEMO_TOKEN": "t"}))
    for line in (
        "hook Stop: sends the event to https://x.example/told",
        "header Authorization: Bearer $DEMO_TOKEN",
        "allowedEnvVars: DEMO_TOKEN, OTHER_TOKEN",
        "sends your variables: DEMO_TOKEN",
    ):
        assert line in shown
    plugin_id = taken(installer, "./demo")
    elsewhere = tmp_path / "elsewhere"
    assert sources(installer, elsewhere) == [frozenset({"DEMO_TOKEN"})]
    assert sources(installer, elsewhere, (plugin_id,)) == [frozenset()], "only the project switches it on"
    assert sources(installer, tmp_path) == [frozenset()], "the project brought it"
    # a plugin that was accepted before questions named variables gets none, and its update asks
    kept = store.read_installed().plugins[plugin_id]
    store.keep_plugin(replace(kept, variables=()))
    assert sources(installer, elsewhere) == [frozenset()]
    offer = asyncio.run(installer.offer_update(plugin_id))
    assert offer.is_new
    installer.keep(offer)
    assert sources(installer, elsewhere) == [frozenset({"DEMO_TOKEN"})]


def test_what_a_plugin_runs_and_gives_is_listed_whole_and_odd_entries_as_left_out(tmp_path: Path) -> None:
    hooks = {
        "Stop": [
            {"hooks": [{"type": "http", "url": "https://x.example", "command": "ruff check ."}]},
            {"hooks": [{"type": "command", "command": "x" * 2_000 + " evil", "args": ["a b"], "shell": "powershell"}]},
        ]
    }
    server = {"type": "http", "url": "https://y.example", "headers": {"A": "$B ${C_TOKEN}"}, "headersHelper": "helps"}
    folder = write(
        demo(tmp_path / "demo"),
        {
            "hooks/hooks.json": {"hooks": hooks},
            ".mcp.json": {"mcpServers": {"far": server, "odd": {**server, "command": "ruff"}}},
            "skills/hello/SKILL.md": "---\nallowed-tools: Bash(rm *)\n---\nLook: !`curl evil`\n",
        },
    )
    shown = "\n".join(what_it_brings(read(folder), folder))
    assert "ruff check ." not in shown.replace("a hook that is left out", "")[: shown.index("a hook that")]
    for line in (
        "a hook that is left out: hooks.Stop: a hook of the type 'http' has no `command`",
        f"{'x' * 2_000} evil",
        *("args[0]: a b", "shell: powershell", "reaches: https://y.example", "header: A=$B ${C_TOKEN}"),
        *(
            "runs for its headers: helps",
            "gets the values of: C_TOKEN",
            "skills/hello/SKILL.md: allowed-tools: Bash(rm *)",
        ),
        *(
            "skills/hello/SKILL.md: runs when it is called: curl evil",
            "cannot be read: it is of the type http and has `command`",
        ),
    ):
        assert line in shown


def test_switched_off_and_removed(tmp_path: Path, installer: PluginInstaller) -> None:
    demo(tmp_path / "demo")
    taken(installer, "./demo")
    installer.switch("demo@local", on=False)
    assert find_plugins(enabled(installer)).plugins == {}
    installer.remove("demo@local")
    assert enabled(installer) == {}
    assert not (store.plugins_folder() / "installed" / "demo@local").exists()


def test_a_repository_is_fetched_and_nothing_of_it_runs(tmp_path: Path, installer: PluginInstaller) -> None:
    folder = demo(tmp_path / "origin")
    marker = tmp_path / "ran"
    write(folder, {".gitattributes": "* filter=evil", ".gitmodules": "[submodule]\n"})
    committed(folder)
    hook = folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    # the user's own configuration names a filter, which the repository would like to have run
    write(tmp_path, {".gitconfig": f'[filter "evil"]\n smudge = touch {marker}\n'})
    offer = offered(installer, f"file://{folder}")
    assert offer.commit == git(folder, "rev-parse", "HEAD")
    installer.keep(offer)
    (plugin,) = find_plugins(enabled(installer)).plugins.values()
    assert (plugin.root / "check").read_text() == "#!/bin/sh\n"
    assert not (plugin.root / ".git").exists()
    assert not marker.exists()


def test_a_branch_of_a_repository(tmp_path: Path, installer: PluginInstaller) -> None:
    folder = committed(demo(tmp_path / "origin"))
    git(folder, "checkout", "-qb", "next")
    demo(folder, "2.0")
    git(folder, "commit", "-qam", "next")
    git(folder, "checkout", "-q", "main")
    offer = offered(installer, f"file://{folder}#next")
    installer.discard(offer)
    assert offer.plugin.version == "2.0"


def test_a_marketplace_in_a_repository(tmp_path: Path, installer: PluginInstaller) -> None:
    shop = tmp_path / "shop"
    demo(shop / "plugins" / "demo")
    listed = [{"name": "demo", "source": "./plugins/demo", "description": "The demo"}, {"name": "no source"}, 7]
    write(shop, {".claude-plugin/marketplace.json": {"name": "shop", "owner": {"name": "a"}, "plugins": listed}})
    committed(shop)
    found = asyncio.run(installer.add_marketplace(f"file://{shop}"))
    assert (list(found.plugins), len(found.problems)) == (["demo"], 2)
    assert taken(installer, "demo") == "demo@shop"
    assert find_plugins(enabled(installer)).plugins["demo@shop"].version == "1.0"
    demo(shop / "plugins" / "demo", "1.1")
    git(shop, "commit", "-qam", "more")
    update = asyncio.run(installer.offer_update("demo@shop"))
    assert (update.plugin.version, update.is_new) == ("1.1", True)
    installer.keep(update)
    installer.remove_marketplace("shop")
    assert find_plugins(enabled(installer)).plugins["demo@shop"].version == "1.1"


def test_a_marketplace_lists_nothing_outside_of_itself(tmp_path: Path, installer: PluginInstaller) -> None:
    demo(tmp_path / "elsewhere")
    listed = [{"name": "demo", "source": "../elsewhere"}]
    write(tmp_path / "shop", {".claude-plugin/marketplace.json": {"name": "shop", "plugins": listed}})
    asyncio.run(installer.add_marketplace("./shop"))
    with pytest.raises(CellwrightError, match="leads out of it"):
        offered(installer, "demo@shop")


def test_a_marketplace_that_settings_name_is_fetched_when_something_of_it_is_wanted(
    tmp_path: Path, installer: PluginInstaller
) -> None:
    demo(tmp_path / "shop" / "demo")
    listed = [{"name": "demo", "source": "./demo"}]
    write(tmp_path / "shop", {".claude-plugin/marketplace.json": {"name": "shop", "plugins": listed}})
    known = {"shop": {"source": "directory", "path": str(tmp_path / "shop")}}
    installer = PluginInstaller(installer.settings_file, installer.environ, tmp_path, PluginRules(known))
    assert taken(installer, "demo@shop") == "demo@shop"


def test_the_administrator_says_where_plugins_come_from(tmp_path: Path, installer: PluginInstaller) -> None:
    demo(tmp_path / "demo")
    taken(installer, "./demo")
    here = {"source": "directory", "path": str(tmp_path / "demo")}
    assert find_plugins(enabled(installer), allowed=[here]).plugins
    assert find_plugins(enabled(installer), allowed=[{"source": "pathPattern", "pathPattern": "^/x"}]).plugins == {}
    assert find_plugins(enabled(installer), blocked=[here]).plugins == {}
    closed = PluginInstaller(installer.settings_file, installer.environ, tmp_path, PluginRules(allowed=()))
    with pytest.raises(CellwrightError, match="listed places only"):
        offered(closed, "./demo")


@for_each_row(
    "words, url",
    [
        ("acme/tools", "https://github.com/acme/tools.git"),
        ("https://example.org/a.git#v1", "https://example.org/a.git"),
        ("git@example.org:a/b.git", "git@example.org:a/b.git"),
        ("ssh://git@example.org/a", "ssh://git@example.org/a"),
        ("http://example.org/a", ""),
        ("ext::sh -c evil", ""),
        ("--upload-pack=evil", ""),
        ("https://user:secret@example.org/a", ""),
        ("https://example.org/a#../x", ""),
        ("./missing", ""),
        ("", ""),
    ],
)
def test_places_as_users_write_them(tmp_path: Path, words: str, url: str) -> None:
    if url:
        assert parse_source(words, tmp_path).url == url
        return
    with pytest.raises(CellwrightError):
        parse_source(words, tmp_path)


@for_each_row("record", [{}, {"source": "npm", "package": "x"}, {"source": "directory", "path": "x"}, {"source": 3}])
def test_places_that_are_none(record: dict[str, Any]) -> None:
    with pytest.raises(CellwrightError):
        read_source(record)


def test_a_package_is_refused_with_the_way_out() -> None:
    with pytest.raises(CellwrightError, match=r"@acme/plugin is on npm.*npm pack.*/plugin install its folder"):
        read_source({"source": "npm", "package": "@acme/plugin"})


def test_a_damaged_record_holds_nothing() -> None:
    file = store.installed_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    for text in ("{", "[]", '{"plugins": 3}', '{"plugins": {"x@y": {"digest": 4}, "../z@w": {"source": {}}}}'):
        file.write_text(text)
        assert store.read_installed().plugins == {}
