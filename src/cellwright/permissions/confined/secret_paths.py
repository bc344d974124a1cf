"""The usual places of secrets in a home folder: hidden from what runs confined, also where a session works there."""

from __future__ import annotations

KEYS = (
    *(
        ".ssh",
        ".gnupg",
        ".aws",
        ".azure",
        ".kube",
        ".docker",
        ".config/gcloud",
        ".config/gh",
        ".config/hub",
        ".config/op",
    ),
    *(".netrc", "_netrc", ".authinfo", ".authinfo.gpg", ".pgpass", ".my.cnf", ".git-credentials"),
    *(
        ".gitconfig",
        ".config/git/config",
        ".config/git/credentials",
        ".gitcookies",
        ".pypirc",
        ".npmrc",
        ".yarnrc.yml",
        ".gem/credentials",
        ".cargo/credentials",
    ),
    *(".cargo/credentials.toml", ".config/containers/auth.json", ".terraform.d/credentials.tfrc.json", ".vault-token"),
    *(
        ".config/doctl",
        ".config/hcloud",
        ".config/rclone",
        ".s3cfg",
        ".boto",
        ".databrickscfg",
        ".snowflake",
        ".kaggle",
    ),
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface", ".wandb", ".config/sops"),
    *(".config/age", ".m2/settings.xml", ".gradle/gradle.properties", ".config/pip/pip.conf", ".pip/pip.conf"),
)
"""Keys and tokens of services."""

PASSWORDS = (
    *(".password-store", ".local/share/password-store", ".local/share/keyrings", ".local/share/kwalletd"),
    *(".config/keybase", ".config/1Password", ".config/Bitwarden", ".config/Bitwarden CLI"),
    *(".electrum", ".bitcoin", ".ethereum", "Library/Keychains"),
)

OF_AGENTS = (
    *(".claude/.credentials.json", ".claude.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".config/anthropic"),
    *(".local/share/cellwright", "Library/Application Support/cellwright"),
)

OF_JUPYTER = (
    *(".jupyter", ".local/share/jupyter/runtime", "Library/Jupyter/runtime", ".ipython/profile_default/security"),
)
"""The keys of running kernels, with which code runs outside, and of the server."""

BROWSERS_AND_MAIL = (
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".config/Signal"),
    *("snap/firefox", "snap/chromium", ".var/app", "Library/Cookies", "Library/Mail", "Library/Messages"),
    *("Library/Safari", "Library/Application Support/Google", "Library/Application Support/Firefox"),
    *("Library/Application Support/BraveSoftware", "Library/Application Support/Microsoft Edge"),
    *("Library/Group Containers", "Library/Containers"),
)

TYPED = (
    *(".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".sqlite_history"),
    ".ipython/profile_default/history.sqlite",
)
"""Histories of what was typed."""

SECRET_PLACES = (*KEYS, *PASSWORDS, *OF_AGENTS, *OF_JUPYTER, *BROWSERS_AND_MAIL, *TYPED)
