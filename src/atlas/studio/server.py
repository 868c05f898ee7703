"""The server of the studio: pages, messages and events, for one browser on this machine. It never works itself.

Everything lies below a token that is drawn at the start, so that no other page and no other user can ask anything.
"""

import asyncio
import base64
import ipaddress
import json
import mimetypes
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from atlas.errors import AtlasError
from atlas.studio.messages import MESSAGES, MOST_BYTES, Studio, parse_body
from atlas.studio.workers import COMMAND, Reply, Workers

ASSETS: Final = {
    path.name: path.read_bytes() for path in files("atlas.studio").joinpath("page").iterdir() if path.is_file()
}
"""The files of the page, by name."""
BEAT: Final = 1.0
"""Seconds between two looks at a run that trains."""
QUIET: Final = 15.0
"""Seconds after which an open stream of events says something, so that a page that has gone is noticed."""
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Refuses requests that name another host or come from another page, and too large ones."""

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self.app, self.host, self.port = app, host, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        trouble = self.trouble(request)
        if trouble:
            await PlainTextResponse(trouble[1], trouble[0], HEADERS)(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        await self.app(scope, receive, with_headers)

    def trouble(self, request: Request) -> tuple[int, str] | None:
        """A status and a sentence, if a request is refused."""
        host = request.headers.get("host", "")
        if not self._is_own(host):
            return 403, "this studio is not called so: use the address that it printed"
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "another page may not ask this studio"
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and request.method != "GET":
            return 403, "another page may not ask this studio"
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return 413, f"a message may have at most {MOST_BYTES:,} bytes"
        return None

    def _is_own(self, host: str) -> bool:
        """Whether a host is this one. Names that anybody can point to this machine are not."""
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        return name in (*LOOPBACK, self.host) or (self.host not in LOOPBACK and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def application(
    studio: Studio,
    token: str,
    host: str,
    port: int,
    ready: Callable[[Reply], None] = lambda _: None,
    command: Sequence[str] = COMMAND,
) -> Starlette:
    """The studio as an ASGI application; `state.lanes` are its workers. `ready` is told what a page needs first, or
    the error that kept it from being found."""
    lanes = Workers(studio, command)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        found = await lanes.ask("start", {})
        app.state.start = found.get("reply", {})
        ready(found)
        # a first question, so that the lab is awake when a page asks one
        warm = asyncio.create_task(lanes.ask("verdict", {"problem": app.state.start.get("problem", {})}, "warm"))
        yield
        warm.cancel()
        await lanes.close()

    def has_token(request: Request) -> bool:
        given = request.path_params["token"].encode(errors="replace")
        return secrets.compare_digest(given, token.encode())

    async def gate(request: Request) -> Response:
        """For links without a token: a page that finds the token of this browser, or asks for it."""
        return Response(ASSETS["gate.html"], media_type="text/html")

    async def gate_script(request: Request) -> Response:
        return Response(ASSETS["gate.js"], media_type="text/javascript")

    async def index(request: Request) -> Response:
        if not has_token(request):
            return PlainTextResponse("this is not the token of the studio", 404)
        # what a page needs first comes with it; a reply is JSON of ours, and < would end the element that holds it
        start = json.dumps(app.state.start, separators=(",", ":")).replace("<", "\\u003c")
        page = ASSETS["index.html"].replace(b"{{start}}", start.encode())
        return Response(page, media_type="text/html")

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if not has_token(request) or name not in ASSETS or name.endswith(".html"):
            return PlainTextResponse("there is no such file", 404)
        return Response(ASSETS[name], media_type=mimetypes.guess_type(name)[0] or "application/octet-stream")

    async def ask(request: Request) -> Response:
        name = request.path_params["name"]
        if not has_token(request) or name not in (*MESSAGES, "cancel"):
            return PlainTextResponse("there is no such message", 404)
        page = request.headers.get("x-page", "")[:64]
        try:
            body = parse_body(await _limited(request))
            if name == "cancel":
                wanted = body.get("message")
                if not isinstance(wanted, str) or wanted not in MESSAGES:
                    raise AtlasError("cancel: there is no such message")
                return JSONResponse({"cancelled": lanes.cancel(page, wanted)})
            if MESSAGES[name].writes and studio.read_only:
                raise AtlasError("this studio is read-only: nothing can be saved")
        except AtlasError as error:
            return JSONResponse({"error": {"sentence": str(error)}}, 422)
        found = await lanes.ask(name, body, page)
        if "reply" in found:
            return JSONResponse(found["reply"])
        return JSONResponse(found, 500 if found["error"].get("internal") else 422)

    async def picture(request: Request) -> Response:
        if not has_token(request):
            return PlainTextResponse("there is no such picture", 404)
        wanted = {key: request.query_params.get(key, "") for key in ("where", "name")}
        found = await lanes.ask("picture", wanted, "picture")
        if "error" in found:
            return PlainTextResponse(found["error"]["sentence"], 404)
        return Response(base64.b64decode(found["reply"]["png"]), media_type="image/png")

    async def live(request: Request) -> Response:
        """Tells a page of a run: at once, and whenever it has written something."""
        if not has_token(request):
            return PlainTextResponse("there is no such run", 404)
        run = request.query_params.get("run", "")
        folder = Path(studio.root, run)
        seen = _stamp(folder)  # before it is read, so that nothing is missed
        found = await lanes.ask("run", {"run": run}, "live")
        if "error" in found:
            return PlainTextResponse(found["error"]["sentence"], 404)

        async def events() -> AsyncIterator[str]:
            told, last, quiet = found, seen, 0.0
            while True:
                if told and "reply" in told:
                    yield f"event: changed\ndata: {json.dumps(told['reply'])}\n\n"
                elif quiet >= QUIET:
                    quiet = 0.0
                    yield ": still here\n\n"
                await asyncio.sleep(BEAT)
                if lanes.closed or await request.is_disconnected():
                    return
                quiet, before, last = quiet + BEAT, last, _stamp(folder)
                told = {} if last == before else await lanes.ask("run", {"run": run}, "live")

        return StreamingResponse(events(), media_type="text/event-stream")

    app = Starlette(
        routes=[
            Route("/", gate),
            Route("/gate.js", gate_script),
            Route("/{token}/", index),
            Route("/{token}/do/{name}", ask, methods=["POST"]),
            Route("/{token}/picture", picture),
            Route("/{token}/live", live),
            Route("/{token}/{name}", asset),
        ],
        middleware=[Middleware(Guard, host=host, port=port)],
        lifespan=lifespan,
    )
    app.state.lanes = lanes
    return app


def _stamp(folder: Path) -> tuple[float, ...]:
    """When the files of a run that the live view shows were last written."""
    stamps = []
    for name in ("metrics.jsonl", "snapshots", "summary.json"):
        try:
            stamps.append(os.stat(folder / name).st_mtime)
        except OSError:
            stamps.append(0.0)
    return tuple(stamps)


async def _limited(request: Request) -> bytes:
    """The body of a request, which may not say how long it is."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MOST_BYTES:
            raise AtlasError(f"a message may have at most {MOST_BYTES:,} bytes")
    return bytes(data)


# Starting


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; if the port is taken, a sentence with one that is free."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except OSError:
        raise AtlasError(f"--host {host} is no address of this machine") from None
    try:
        return _bound(family, host, port)
    except PermissionError:
        raise AtlasError(f"--port {port} may not be used by this user: take one from 1024 on") from None
    except OSError as error:
        for other in range(port + 1, min(port + 100, 65_536)):
            try:
                _bound(family, host, other).close()
            except OSError:
                continue
            raise AtlasError(f"port {port} is taken: --port {other} is free") from None
        raise AtlasError(f"--host {host} --port {port}: {(error.strerror or 'cannot be used').lower()}") from None


def _bound(family: int, host: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(64)
    except OSError:
        made.close()
        raise
    return made


def serve(studio: Studio, host: str, port: int, listening: socket.socket, tell: Callable[[str], None]) -> None:
    """Serve until it is interrupted; `tell` is called with the address once pages can be opened."""
    import uvicorn

    token, trouble = secrets.token_urlsafe(18), []

    def ready(found: Reply) -> None:
        if "error" in found:
            trouble.append(found["error"]["sentence"])
            server.should_exit = True
        else:
            tell(address(host, port, token))

    class Server(uvicorn.Server):
        """Answers whoever still waits before it ends, so that nothing is cut off."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await app.state.lanes.close()
            await super().shutdown(sockets)

    app = application(studio, token, host, port, ready)
    server = Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3, server_header=False))
    server.run(sockets=[listening])
    if trouble:
        raise AtlasError(trouble[0])


def address(host: str, port: int, token: str) -> str:
    """The address of the studio."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/{token}/"
