"""The fields of a request: what each may hold, whatever was said before.

Start with `request_fields.py`; `json_shape.py` has the checks that it is written in. Not here: the order of messages,
and what has to come back unchanged (`testing/rules/history`).
"""
