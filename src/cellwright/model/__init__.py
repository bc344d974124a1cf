"""The Messages API: requests, transports, the stream of an answer, retries, models, prices, credentials.

Start with `provider.py` (the contract) and `anthropic.py`.

Not here: tools, history, settings.
"""
