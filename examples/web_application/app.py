"""A web application with Claude in it: a page, and the few lines between it and a Jupyter Server with Cellwright.

    python app.py --jupyter http://localhost:8888 --token TOKEN [--port 8000]

The page never sees Jupyter's token: whoever has that can run code. It sees the events of the runs that it began.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path
from urllib.parse import urlsplit

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.iostream import StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

PAGE = Path(__file__).with_name("page.html")
HOURS = 3600.0


class Page(RequestHandler):
    def get(self) -> None:
        self.finish(PAGE.read_bytes())


class Passed(RequestHandler):
    """Passes a request on to Cellwright, with the token, and what comes back piece by piece."""

    def initialize(self, api: str, token: str) -> None:
        self.api, self.token = api, token

    def prepare(self) -> None:
        # another site's page must not be able to use this one
        origin = self.request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != self.request.host:
            raise HTTPError(403)

    async def get(self, path: str) -> None:
        await self.pass_on(path, None)

    async def post(self, path: str) -> None:
        await self.pass_on(path, self.request.body)

    async def pass_on(self, path: str, body: bytes | None) -> None:
        headers = {"Authorization": f"token {self.token}", "Accept": self.request.headers.get("Accept", "*/*")}
        if (last := self.request.headers.get("Last-Event-ID")) is not None:
            headers["Last-Event-ID"] = last
        self.set_header("X-Accel-Buffering", "no")
        request = HTTPRequest(
            f"{self.api}/{path}",
            method=self.request.method or "GET",
            headers=headers,
            body=body,
            header_callback=self.take_header,
            streaming_callback=self.take_piece,
            request_timeout=HOURS,
        )
        # its own client: by default ten requests at once are all there are, and a run takes as long as it takes
        client = AsyncHTTPClient(force_instance=True)
        try:
            await client.fetch(request, raise_error=False)
        finally:
            client.close()

    def take_header(self, line: str) -> None:
        name, _, value = line.partition(":")
        if line.startswith("HTTP/"):
            self.set_status(int(line.split()[1]))
        elif name.lower() in ("content-type", "cellwright-run", "cache-control", "retry-after"):
            self.set_header(name, value.strip())

    async def take_piece(self, piece: bytes) -> None:
        try:
            self.write(piece)
            await self.flush()  # a page that reads slowly is waited for, and Cellwright waits with us
        except StreamClosedError:
            pass  # the page has left; the run goes on, and the page can come back to it


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jupyter", required=True, help="the Jupyter Server's address, with its base URL")
    parser.add_argument("--token", default=os.environ.get("JUPYTER_TOKEN", ""), help="its token (or $JUPYTER_TOKEN)")
    parser.add_argument("--port", type=int, default=8000)
    said = parser.parse_args()
    settings = {"api": f"{said.jupyter.rstrip('/')}/cellwright/api", "token": said.token}
    # what the page may ask for, and nothing else of what the token opens
    passed = r"/api/(run|kernels/[^/]+/run|runs/[0-9a-f]{32}(?:/(?:events|stop|steer|answers/[^/]+))?)"
    application = Application([(r"/", Page), (passed, Passed, settings)])
    server = application.listen(said.port, "127.0.0.1")
    (port,) = {each.getsockname()[1] for each in server._sockets.values()}
    print(json.dumps({"url": f"http://127.0.0.1:{port}/"}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
