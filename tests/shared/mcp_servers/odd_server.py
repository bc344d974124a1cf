"""Servers of odd manners, one by each word, and answers of odd forms, one by each tool: written without the SDK."""

import json
import os
import signal
import sys
import time

KIND = sys.argv[1] if len(sys.argv) > 1 else "answers"
OUT = sys.stdout.buffer
SCHEMA = {"type": "object"}


def write(data):
    OUT.write(data if isinstance(data, bytes) else data.encode())
    OUT.flush()


def message(**fields):
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def result(number, text="fine"):
    return message(id=number, result={"content": [{"type": "text", "text": text}]})


def indented(number):
    return json.dumps(json.loads(result(number)), indent=2).encode()


RESULTS = {
    "content_text": {"content": "fine"},
    "content_unknown": {"content": [{"type": "hologram", "x": 1}]},
    "structured_list": {"structuredContent": [1, 2]},
    "structured_alone": {"structuredContent": {"a": 1}},
}
ANSWERS = {
    **{name: lambda n, given=given: message(id=n, result=given) + b"\n" for name, given in RESULTS.items()},
    "good": lambda n: result(n) + b"\n",
    "half_emoji": lambda n: result(n).replace(b"fine", b"cut \\ud83d") + b"\n",
    "raw_control": lambda n: result(n).replace(b"fine", b"a\x01b\tc") + b"\n",
    "raw_newline": lambda n: result(n).replace(b"fine", b"one\ntwo") + b"\n",
    "latin_1": lambda n: result(n).replace(b"fine", b"caf\xe9") + b"\n",
    "several_lines": lambda n: indented(n) + b"\n",
    "no_line_end": result,
    "batch": lambda n: b"[" + result(n) + b"]\n",
    "two_in_a_line": lambda n: (
        message(method="notifications/message", params={"level": "info", "data": "x"}) + result(n) + b"\n"
    ),
    "behind_words": lambda n: b"DEBUG answer: " + result(n) + b"\n",
    "before_words": lambda n: result(n) + b" sent\n",
    "byte_order_mark": lambda n: b"\xef\xbb\xbf" + result(n) + b"\r\n",
    "utf_16": lambda n: result(n).decode().encode("utf-16") + "\n".encode("utf-16-le"),
    "content_length": lambda n: b"Content-Length: %d\r\n\r\n" % len(result(n)) + result(n),
    "not_a_number": lambda n: (
        result(n).replace(b'"fine"}', b'"fine"}], "structuredContent": {"x": NaN}, "y": [{}') + b"\n"
    ),
    "text_id": lambda n: result(n).replace(b'"id": %d' % n, b'"id": "%d"' % n) + b"\n",
    "float_id": lambda n: result(n).replace(b'"id": %d' % n, b'"id": %d.0' % n) + b"\n",
    "no_version": lambda n: result(n).replace(b'"jsonrpc": "2.0", ', b"") + b"\n",
    "null_error": lambda n: result(n).replace(b'"id":', b'"error": null, "id":') + b"\n",
    "chatter_first": lambda n: b"Loading {model}...\n{'a': 1}\n[1, 2]\n" + result(n) + b"\n",
    "half_then_good": lambda n: result(n)[:40] + b"\n" + result(n) + b"\n",
    # those that cannot be understood
    "half": lambda n: result(n)[:40] + b"\n",
    "python": lambda n: repr(json.loads(result(n))).encode() + b"\n",
    "comma": lambda n: result(n)[:-1] + b",}\n",
    "web_page": lambda n: b"<!DOCTYPE html><html>Sign in</html>\n",
    "null_result": lambda n: message(id=n, result=None) + b"\n",
    "list_result": lambda n: message(id=n, result=[1, 2]) + b"\n",
    "text_result": lambda n: message(id=n, result="done") + b"\n",
    "no_result": lambda n: message(id=n) + b"\n",
    "bare_result": lambda n: b'{"content": [{"type": "text", "text": "bare"}]}\n',
    "other_id": lambda n: message(id="zzz", result={"content": []}) + b"\n",
    "no_id": lambda n: message(result={"content": []}) + b"\n",
    "null_id": lambda n: message(id=None, error={"code": -32700, "message": "Parse error"}) + b"\n",
    "error_text": lambda n: message(id=n, error="it broke") + b"\n",
    "error_without_code": lambda n: message(id=n, error={"message": "it broke"}) + b"\n",
    "empty_error": lambda n: message(id=n, error={}) + b"\n",
    "long_number": lambda n: result(n).replace(b'"fine"', b"1" + b"0" * 10_000) + b"\n",
    "deep": lambda n: b'{"jsonrpc": "2.0", "id": %d, "result": ' % n + b"[" * 100_000 + b"\n",
}
TOOLS = [{"name": name, "inputSchema": SCHEMA} for name in ANSWERS]
ONE = [{"name": "good", "inputSchema": SCHEMA}]


def of_initialize(number, version):
    about = {"name": "odd", "version": "1"}
    capabilities = {"tools": {"listChanged": True}}
    if KIND == "no_capabilities":
        capabilities = {}
    if KIND == "no_about":
        about = {}
    version = {"old_version": "2024-11-05", "unknown_version": "1999-01-01", "number_version": 3}.get(KIND, version)
    made = message(id=number, result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": about})
    match KIND:
        case "refuses":
            return message(id=number, error={"code": -32000, "message": "no licence"})
        case "answers_null":
            return message(id=number, result=None)
        case "answers_python":
            return repr(json.loads(made)).encode()
        case "answers_page":
            return b"<html>Sign in</html>"
        case "other_ids":
            return made.replace(b'"id": %d' % number, b'"id": "first"')
        case "several_lines":
            return json.dumps(json.loads(made), indent=2).encode()
        case "asks_first":
            return message(id="s1", method="roots/list") + b"\n" + message(id="s2", method="nonsense/x") + b"\n" + made
    return made


def of_list(number):
    match KIND:
        case "answers":
            return message(id=number, result={"tools": TOOLS})
        case "list_refused":
            return message(id=number, error={"code": -32603, "message": "database is locked"})
        case "list_null":
            return message(id=number, result=None)
        case "list_words":
            return message(id=number, result={"tools": "none"})
        case "list_loop":
            return message(id=number, result={"tools": ONE, "nextCursor": "again"})
        case "list_latin_1":
            return message(id=number, result={"tools": [{**ONE[0], "description": "cafe"}]}).replace(
                b"cafe", b"caf\xe9"
            )
        case "list_dies":
            os._exit(7)
    return message(id=number, result={"tools": ONE})


def misbehave():
    match KIND:
        case "exits":
            sys.exit("no configuration found")
        case "exits_quietly":
            sys.exit(0)
        case "traceback":
            raise RuntimeError("cannot connect to the database")
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "silent":
            time.sleep(10_000)
        case "closes_output":
            os.close(1)
            time.sleep(10_000)
        case "noise":
            write('Starting...\n\n{"not": "rpc"}\n[1,2]\n{ half\n')
            sys.stderr.write("x" * 300_000 + "\n")
            sys.stderr.flush()


def answer(number, method, params):
    match method:
        case "initialize":
            write(of_initialize(number, params["protocolVersion"]) + b"\n")
            if KIND == "tells_changes":
                write(b"".join(message(method="notifications/tools/list_changed") + b"\n" for _ in range(50)))
        case "tools/list":
            write(of_list(number) + b"\n")
        case "tools/call" if KIND == "dies_in_call":
            os._exit(9)
        case "tools/call":
            write(ANSWERS[params["name"]](number))
        case _:
            write(message(id=number, error={"code": -32601, "message": "Method not found"}) + b"\n")


misbehave()
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        answer(asked["id"], asked["method"], asked.get("params"))
