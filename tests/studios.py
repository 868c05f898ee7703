"""A studio that runs in a thread of the tests, and a plain client for it."""

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn

from atlas.studio.messages import Studio
from atlas.studio.server import address, application, bind
from atlas.studio.workers import COMMAND

TOKEN = "secret-of-the-tests"


@dataclass
class Answer:
    """What came back."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Served:
    """A studio that is running."""

    app: Any
    port: int

    @property
    def url(self) -> str:
        return address("127.0.0.1", self.port, TOKEN)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, dict(headers or {}))
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("GET", path, None, headers)

    def ask(self, name: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        content = body if isinstance(body, bytes) or hasattr(body, "__next__") else json.dumps(body).encode()
        return self.request("POST", f"/{TOKEN}/do/{name}", content, headers)


@contextlib.contextmanager
def serving(studio: Studio, command: Sequence[str] = COMMAND) -> Iterator[Served]:
    """A studio on a free port, until the block ends."""
    with bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        ready: list[Any] = []
        app = application(studio, TOKEN, "127.0.0.1", port, ready.append, command)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            thread.join(0.05)
        assert "reply" in ready[0], ready
        try:
            yield Served(app, port)
        finally:
            server.should_exit = True
            thread.join(20)
