"""The traits of `c.CellwrightApp` that say whether the key stays on the server, and what goes through the proxy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from traitlets import Bool, HasTraits, Integer, Unicode

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.credential_names import KEY_VARIABLES, key_in
from cellwright.model.credentials import source_of_credential
from cellwright.server.admin.policy import AdminPolicy
from cellwright.server.proxy.limits import MAX_REQUEST_BYTES, ProxyLimits
from cellwright.server.proxy.upstream import Upstream
from cellwright.sessions.state_dir import state_folder


class ProxyTraits(HasTraits):
    """The traits of the proxy that an administrator sets."""

    anthropic_proxy = Bool(
        False, help="Keep the key on the server: kernels get a token each, and ask the API through this server."
    ).tag(config=True)
    anthropic_key_file = Unicode(
        "",
        help="The file with the key; default: ANTHROPIC_API_KEY, CLAUDE_API_KEY or ANTHROPIC_AUTH_TOKEN in the server's "
        "environment.",
    ).tag(config=True)
    anthropic_upstream = Unicode(
        "", help="Where the proxy sends requests; default: ANTHROPIC_BASE_URL of the server's environment, or the API."
    ).tag(config=True)
    anthropic_proxy_url = Unicode(
        "", help="How kernels reach the proxy, where that is not this server on this machine."
    ).tag(config=True)
    proxy_folder = Unicode(
        "", help="Where the spending and the egress log are kept; default: `proxy` in Cellwright's own folder."
    ).tag(config=True)
    proxy_max_tokens = Integer(
        None, allow_none=True, min=1, help="The most tokens of one answer; a request for more gets so many."
    ).tag(config=True)
    proxy_max_request_bytes = Integer(
        MAX_REQUEST_BYTES, min=1_000, help="The largest request to the API, in bytes."
    ).tag(config=True)
    proxy_requests_per_minute = Integer(
        None, allow_none=True, min=1, help="How many requests to the API a user may send in a minute."
    ).tag(config=True)
    proxy_concurrent_requests = Integer(
        None, allow_none=True, min=1, help="How many requests to the API a user may have open at once."
    ).tag(config=True)

    def proxy_limits(self, policy: AdminPolicy) -> ProxyLimits:
        return ProxyLimits(
            allowed_models=policy.allowed_models,
            max_tokens=self.proxy_max_tokens,
            max_request_bytes=self.proxy_max_request_bytes,
            requests_per_minute=self.proxy_requests_per_minute,
            concurrent_requests=self.proxy_concurrent_requests,
            budget_usd_per_day=policy.budget_usd_per_day,
            budget_usd_per_kernel=policy.budget_usd_per_kernel,
            web_tools=not policy.is_off("web_tools"),
            mcp=not policy.is_off("mcp"),
        )

    def proxy_place(self) -> Path:
        return Path(self.proxy_folder).expanduser().absolute() if self.proxy_folder else state_folder() / "proxy"

    def upstream(self, environ: Mapping[str, str]) -> Upstream:
        """The way to the API. Raises CellwrightError where there is no key, or the environment leads elsewhere."""
        if not self.anthropic_key_file:
            _refuse_other_ways(environ)
        return Upstream(self._key(environ), self.anthropic_upstream or environ.get("ANTHROPIC_BASE_URL", ""))

    def _key(self, environ: Mapping[str, str]) -> str:
        if self.anthropic_key_file:
            try:
                return Path(self.anthropic_key_file).expanduser().read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                message = f"anthropic_key_file: {self.anthropic_key_file} cannot be read ({error})."
                raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error
        return key_in(environ)


def _refuse_other_ways(environ: Mapping[str, str]) -> None:
    """A platform that is switched on would not be asked: rather no requests than some on another account."""
    source = source_of_credential(environ)
    if source is None or source in KEY_VARIABLES:
        return
    message = (
        f"The server's environment leads to Claude by {source}; the proxy asks the Messages API with a key, and nothing "
        "else. Take that out of the server's environment, or name a key's file (anthropic_key_file) and its address "
        "(anthropic_upstream). Bedrock, Vertex and Foundry can stand behind a gateway that speaks the Messages API."
    )
    raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
