"""The failures that the network, and not the API, is the cause of, in words for people."""

from __future__ import annotations

import ssl

from cellwright.errors import ErrorCode
from cellwright.model.retry import FailedAttempt

CONNECT_SECONDS = 5.0
"""The time a connection may take to come about."""


def certificate_refused(host: str, error: ssl.SSLCertVerificationError) -> FailedAttempt:
    """The certificate of `host` does not hold: trying again would not help."""
    message = (
        f"The certificate of {host} cannot be verified ({error.verify_message}). "
        "If a proxy inspects the traffic, set SSL_CERT_FILE to its certificate."
    )
    return FailedAttempt(ErrorCode.API_NETWORK_ERROR, message, retryable=False)


def unsendable() -> FailedAttempt:
    """The address or a header is not of a form that can be sent. Nothing is quoted, since it can be the key."""
    message = "The request cannot be sent as it is. Check ANTHROPIC_BASE_URL and ANTHROPIC_CUSTOM_HEADERS."
    return FailedAttempt(ErrorCode.API_REQUEST_INVALID, message, retryable=False)


def connecting_took_too_long(host: str) -> FailedAttempt:
    """`host` has not taken the connection."""
    return _retryable(
        f"{host} did not accept a connection within {CONNECT_SECONDS:g} s. Check the network and the proxy."
    )


def silent(host: str, seconds: float) -> FailedAttempt:
    """The connection stands, and nothing came for `seconds`."""
    return _retryable(f"Nothing came from {host} for {seconds:g} s.")


def unreachable(host: str, reason: str) -> FailedAttempt:
    """There is no connection, for the `reason` that the system gives."""
    return _retryable(
        f"{host} cannot be reached ({reason.rstrip('.')}). Check the network, the proxy and ANTHROPIC_BASE_URL."
    )


def cut(host: str, reason: str) -> FailedAttempt:
    """The connection ended before the answer did."""
    return _retryable(f"The connection to {host} was cut ({reason.rstrip('.')}).")


def _retryable(message: str) -> FailedAttempt:
    return FailedAttempt(ErrorCode.API_NETWORK_ERROR, message, retryable=True)
