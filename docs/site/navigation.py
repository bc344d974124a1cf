"""The order of the site's pages. The pages themselves stay plain Markdown, to be read in the repository as well."""

from __future__ import annotations

START = (
    "get-started",
    "providers",
    "front-ends",
    "coming-from-claude-code",
    "coming-from-other-assistants",
    "faq",
    "troubleshooting",
    "whats-new",
)
GUIDES = (
    "guides/clean-a-data-set",
    "guides/fix-a-failing-test",
    "guides/review-a-notebook",
    "guides/teach-with-it",
    "guides/run-it-for-a-class",
)
SECTIONS = {
    "Start": START,
    "Guides": GUIDES,
    "In the notebook": (
        "notebooks", "cell-actions", "panel", "permissions", "sandbox", "undo", "numbers", "context", "costs",
        "sessions", "completion", "typed-answers", "background", "branches", "verify", "replay", "code-intelligence",
    ),
    "Customise": (
        "memory", "skills", "agents", "hooks", "mcp", "mcp-github-gitlab", "plugins", "output-styles", "examples/README",
    ),
    "Without a notebook": (
        "terminal", "headless", "many-prompts", "testing", "coming-from-claude-agent-sdk", "streaming-events", "server",
    ),
    "Running it for others": (
        "jupyterhub", "security", "containers", "telemetry", "local-models", "performance",
    ),
    "Reference": (
        "reference/magics", "reference/slash-commands", "tools", "reference/tools", "settings", "reference/settings",
        "environment", "reference/command-line", "reference/errors", "reference/python", "reference/server",
    ),
    "Protocols": ("protocol/notebook", "protocol/chat", "protocol/documents", "protocol/transcript", "protocol/results"),
    "The project": (
        "architecture", "reference/changelog", "decisions/README", "reference/contributing", "reference/reporting",
    ),
}  # fmt: skip


def toctrees(page: str) -> str:
    """The lists of pages that `page` is to end with; none for most."""
    if page == "decisions/README":
        return _toctree("*", glob=True)
    if page == "index":
        return "".join(_toctree(*pages, caption=caption) for caption, pages in SECTIONS.items())
    return ""


def _toctree(*pages: str, caption: str = "", glob: bool = False) -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else []), *([":glob:"] if glob else [])]
    return "\n\n" + "\n".join(["```{toctree}", *options, "", *pages, "```"]) + "\n"
