"""The issue tracker of a made-up project in memory, by the names of the tools of GitHub's MCP server or of GitLab's.

`python tracker_server.py github` or `gitlab`; each also offers what no agent of ours may have.
"""

import json
import sys

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
ISSUES = {
    1: {"title": "Typo in the README", "state": "open", "labels": [], "notes": []},
    2: {"title": "Saving loses the last row", "state": "open", "labels": ["bug"], "notes": ["Lost data twice."]},
}
DIFF = "--- a/tides.py\n+++ b/tides.py\n@@ -1 +1 @@\n-return rows\n+return rows[:-1]\n"
server = MCPServer(sys.argv[1], version="1.0")


def github() -> None:
    @server.tool(annotations=READS)
    def list_issues(owner: str, repo: str) -> str:
        """List issues in a GitHub repository."""
        return json.dumps([{"number": number, **issue} for number, issue in ISSUES.items()])

    @server.tool(annotations=READS)
    def issue_read(method: str, owner: str, repo: str, issue_number: int) -> str:
        """Get information about a specific issue."""
        issue = ISSUES[issue_number]
        return json.dumps(issue["notes"] if method == "get_comments" else issue)

    @server.tool()
    def issue_write(method: str, owner: str, repo: str, issue_number: int, labels: list[str]) -> str:
        """Create a new or update an existing issue."""
        ISSUES[issue_number]["labels"] = labels
        return json.dumps(ISSUES[issue_number])

    @server.tool(annotations=READS)
    def pull_request_read(method: str, owner: str, repo: str, pullNumber: int) -> str:
        """Get information on a specific pull request."""
        return DIFF if method == "get_diff" else json.dumps({"title": "Fix #2"})

    @server.tool()
    def merge_pull_request(owner: str, repo: str) -> str:
        """Merge a pull request."""
        return "merged"


def gitlab() -> None:
    @server.tool(annotations=READS)
    def get_issue(id: str, issue_iid: int) -> str:
        """Get a single project issue."""
        return json.dumps(ISSUES[issue_iid])

    @server.tool(annotations=READS)
    def gitlab_search(scope: str, search: str) -> str:
        """Search across GitLab."""
        return json.dumps([{"iid": number, **issue} for number, issue in ISSUES.items()])

    @server.tool()
    def create_workitem_note(body: str, work_item_iid: int) -> str:
        """Create a note on a work item."""
        ISSUES[work_item_iid]["notes"].append(body)
        return json.dumps(ISSUES[work_item_iid])

    @server.tool(annotations=READS)
    def get_merge_request_diffs(id: str, merge_request_iid: int) -> str:
        """Get the diffs of a merge request."""
        return DIFF

    @server.tool()
    def create_merge_request(id: str, title: str) -> str:
        """Create a merge request."""
        return "created"


{"github": github, "gitlab": gitlab}[sys.argv[1]]()
server.run()
