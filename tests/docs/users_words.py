"""What people type into a search, for the tests of the site and of `cellwright docs --search`."""

USERS_WORDS = {
    "proxy": "faq",
    "certificate": "faq",
    "conda": "faq",
    "VPN": "faq",
    "uninstall": "faq",
    "where are sessions stored": "faq",
    "default model": "faq",
    "what leaves my machine": "faq",
    "limits": "faq",
    "API key": "faq",
    "slow": "faq",
    "Windows": "faq",
    "colab": "front-ends",
    "budget": "costs",
    "undo": "undo",
    "papermill": "headless",
    "CLAUDE.md": "faq",
    "hook": "hooks",
    "test without a key": "faq",
    "Bedrock": "faq",
}
"""What people type, and the page that answers it."""
