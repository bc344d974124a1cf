"""The floor of the kernel's rows: a `%%claude` that sends its prompt with httpx2 and prints what arrives, and nothing else.

Loaded by `%load_ext benchmarks.rows.plain_magic`. It checks nothing, keeps no transcript and has no tools: what is left is
Jupyter, IPython and one request.
"""

from __future__ import annotations

import json
import os
from typing import Any

import httpx2
from IPython.core.interactiveshell import InteractiveShell

MODEL = "claude-opus-5-5"


def load_ipython_extension(shell: InteractiveShell) -> None:
    client = httpx2.Client(base_url=os.environ["ANTHROPIC_BASE_URL"], timeout=60)
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    messages: list[dict[str, Any]] = []

    def claude(line: str, cell: str) -> None:
        messages.append({"role": "user", "content": cell})
        body = {"model": MODEL, "max_tokens": 32000, "stream": True, "messages": messages}
        answer = ""
        with client.stream("POST", "/v1/messages", json=body, headers=headers) as reply:
            for sse in reply.iter_lines():
                if sse.startswith("data:") and (event := json.loads(sse[5:]))["type"] == "content_block_delta":
                    answer += (text := event["delta"].get("text", ""))
                    print(text, end="", flush=True)
        messages.append({"role": "assistant", "content": answer})

    shell.register_magic_function(claude, "cell")
