"""The ways to the Messages API below the provider: a key, straight there or by httpx2, and the SDK's clients."""
