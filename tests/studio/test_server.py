"""The server and its lanes, in front of a desk that does as it is told."""

import asyncio
import http.client
import json
import os
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import quick_desk
from atlas.cli import main
from atlas.errors import AtlasError
from atlas.studio import messages, server, workers
from atlas.studio.messages import MESSAGES, MOST_BYTES, Message, Studio
from atlas.studio.server import address, bind
from atlas.studio.workers import Workers
from studios import TOKEN, serving


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(Studio(str(tmp_path_factory.mktemp("root"))), quick_desk.COMMAND) as one:
        yield one


def test_a_message_is_answered_and_a_refusal_is_a_sentence(client):
    assert client.ask("level", {"a": [1, "ü"]}).json()["a"] == [1, "ü"]
    refused = client.ask("level", {"do": "refuse"})
    assert (refused.status_code, refused.json()) == (422, {"error": {"sentence": "no"}})
    broken = client.ask("level", {"do": "break"})
    assert broken.status_code == 500
    assert broken.json()["error"]["sentence"] == "internal error: ZeroDivisionError: oh"


@pytest.mark.parametrize("path", ["/wrong/", "/wrong/studio.js", "/wrong/live?run=.", "/wrong/picture?where=a&name=b"])
def test_nothing_is_told_without_the_token(client, path):
    asked = client.request("POST", "/wrong/do/level", b"{}")
    for answer in (client.get(path), asked):
        assert answer.status_code == 404
        assert TOKEN not in answer.text


def test_the_page_comes_with_what_it_needs_and_allows_no_other_source(client):
    page = client.get(f"/{TOKEN}/")
    assert '"message":"start"' in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"
    for name in ("studio.js", "studio.css", "ask.js", "icon.svg"):
        assert client.get(f"/{TOKEN}/{name}").status_code == 200
    for name in ("index.html", "..%2fserver.py", "answers.py", "%2e%2e/workers.py"):
        assert client.get(f"/{TOKEN}/{name}").status_code == 404


def test_the_gate_has_no_secrets(client):
    assert TOKEN not in client.get("/").text + client.get("/gate.js").text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{}", "127.0.0.1:1", "127.0.0.1.evil:{}", "8.8.8.8:{}"])
def test_a_foreign_host_is_refused(client, host):
    assert client.get(f"/{TOKEN}/", headers={"host": host.format(client.port)}).status_code == 403
    assert client.get(f"/{TOKEN}/", headers={"host": f"localhost:{client.port}"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:{}"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_foreign_page_is_refused(client, headers):
    foreign = {name: value.format(client.port) for name, value in headers.items()}
    assert client.ask("level", {}, foreign).status_code == 403
    assert client.ask("level", {}, {"origin": client.origin, "sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"3", b"{", b"\xff", b'{"a": NaN}', b'{"a": 1e999}', b"[" * 2000, b'{"a":' * 60 + b"1" + b"}" * 60],
)
def test_what_is_no_message_is_a_sentence(client, body):
    answer = client.ask("level", body)
    assert answer.status_code == 422
    assert answer.json()["error"]["sentence"].startswith("the message")


def test_what_is_too_large_is_refused_whether_it_says_so_or_not(client):
    large = b'{"a": "' + b"x" * MOST_BYTES + b'"}'
    assert client.ask("level", large).status_code == 413
    assert client.ask("level", iter([large])).status_code == 422


def test_unknown_messages_and_methods_are_refused(client):
    assert client.ask("nothing", {}).status_code == 404
    assert client.get(f"/{TOKEN}/do/level").status_code == 405
    assert client.ask("cancel", {"message": "nothing"}).status_code == 422


PLACES = (TOKEN, "wrong", "do", "level", "save", "cancel", "picture", "live", "studio.js", "index.html", "gate.js")
ODDITIES = (
    "",
    ".",
    "..",
    "%2e%2e",
    "%00",
    "%ff",
    "?",
    "#",
    "//",
    "\\",
    "a" * 3000,
    "live?run=.",
    "picture?where=\u00fc",
)
SEGMENTS = st.sampled_from(PLACES) | st.sampled_from(ODDITIES)
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "\u00e4", ""])
HEADERS = st.dictionaries(
    st.sampled_from(["origin", "host", "content-length", "transfer-encoding", "x-page", "sec-fetch-site", "upgrade"]),
    st.sampled_from(["", "0", "-1", "9" * 40, "chunked", "websocket", "null", "cross-site", "evil.example", "\u00ff"]),
    max_size=3,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(max_size=9), inside),
    max_leaves=8,
)
BODIES = st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(METHODS, st.lists(SEGMENTS, max_size=5), HEADERS, BODIES, st.booleans())
def test_whatever_is_sent_the_server_refuses_or_answers_and_goes_on(client, method, segments, headers, body, honest):
    """Anything at all on the wire: never an internal error, never a word to those without the token."""
    lines = {"host": f"127.0.0.1:{client.port}", "connection": "close"} | headers
    if honest:
        lines["content-length"] = str(len(body))
    head = f"{method} /{'/'.join(segments)} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as wire:
        wire.sendall(head.encode("latin-1", errors="replace") + body)
        wire.shutdown(socket.SHUT_WR)
        answer = b""
        while part := wire.recv(65_536):
            answer += part
    if answer:
        status = int(answer.split()[1])
        assert 200 <= status < 500, answer[:300]
        if TOKEN not in segments:
            assert TOKEN.encode() not in answer
            assert b'"message"' not in answer
    assert client.ask("level", {"a": 1}).json()["a"] == 1


def test_read_only_writes_nothing(tmp_path):
    with serving(Studio(str(tmp_path), read_only=True), quick_desk.COMMAND) as client:
        assert "read-only" in client.ask("save", {}).json()["error"]["sentence"]
        assert client.ask("level", {}).status_code == 200


def test_a_page_is_told_of_a_run_at_once_and_when_it_writes(client, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(server, "BEAT", 0.05)
    run = tmp_path_factory.mktemp("run")
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.request("GET", f"/{TOKEN}/live?run={run}")
    events = connection.getresponse()

    def told():
        lines = [events.readline().decode() for _ in range(3)]
        assert lines[0] == "event: changed\n"
        return json.loads(lines[1].removeprefix("data: "))

    assert told()["run"] == str(run)
    for when in (1_000, 2_000):
        (run / "metrics.jsonl").write_text("{}\n")
        os.utime(run / "metrics.jsonl", (when, when))
        assert told()["message"] == "run"
    connection.close()


# The workers of a studio


def run(tmp_path, scenario):
    async def inner():
        made = Workers(Studio(str(tmp_path)), quick_desk.COMMAND)
        try:
            return await scenario(made)
        finally:
            await made.close()

    return asyncio.run(inner())


def test_a_lost_worker_is_started_again_and_the_message_sent_once_more(tmp_path):
    async def scenario(made):
        first = await made.ask("level", {})
        again = await made.ask("level", {"do": "die once", "mark": str(tmp_path / "mark")})
        assert again["reply"]["pid"] != first["reply"]["pid"]
        assert made.workers["desk"].starts == 2
        lost = await made.ask("level", {"do": "die"})
        assert "was lost" in lost["error"]["sentence"]
        assert "reply" in await made.ask("level", {})
        made.workers["desk"].process.kill()
        assert "reply" in await made.ask("level", {})

    run(tmp_path, scenario)


def test_what_writes_is_never_sent_twice(tmp_path):
    async def scenario(made):
        lost = await made.ask("save", {"do": "die once", "mark": str(tmp_path / "mark")})
        assert "was lost" in lost["error"]["sentence"]

    run(tmp_path, scenario)


def test_a_newer_question_cancels_an_older_one_of_the_same_page_only(tmp_path):
    async def scenario(made):
        await made.ask("verdict", {})
        waiting = [
            asyncio.create_task(made.ask("verdict", {"do": "wait", "seconds": 60}, "a")),
            asyncio.create_task(made.ask("verdict", {"number": 2}, "b")),
        ]
        await asyncio.sleep(0.3)
        newest = await made.ask("verdict", {"number": 3}, "a")
        assert newest["reply"]["number"] == 3
        old, other = [await task for task in waiting]
        assert old["error"]["cancelled"]
        assert other["reply"]["number"] == 2
        assert made.workers["lab"].starts == 1  # the worker itself lives on

    run(tmp_path, scenario)


def test_what_cannot_be_interrupted_is_ended_and_what_takes_too_long_too(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 0.3)
    quick = dict(MESSAGES, level=Message("desk", 0.5))
    monkeypatch.setattr(workers, "MESSAGES", quick)

    async def scenario(made):
        first = await made.ask("verdict", {}, "a")
        stuck = asyncio.create_task(made.ask("verdict", {"do": "work", "seconds": 60}, "a"))
        await asyncio.sleep(0.3)
        assert made.cancel("a", "verdict") == 1
        assert (await stuck)["error"]["cancelled"]
        after = await made.ask("verdict", {}, "a")
        assert after["reply"]["pid"] != first["reply"]["pid"]
        slow = await made.ask("level", {"do": "wait", "seconds": 60})
        assert slow["error"]["sentence"] == "this took longer than 0.5 seconds and was stopped"
        assert "reply" in await made.ask("level", {})

    run(tmp_path, scenario)


def test_a_lane_that_is_busy_does_not_keep_the_other_waiting(tmp_path):
    async def scenario(made):
        await asyncio.gather(made.ask("verdict", {}), made.ask("level", {}))
        slow = asyncio.create_task(made.ask("verdict", {"do": "wait", "seconds": 60}))
        await asyncio.sleep(0.1)
        assert "reply" in await made.ask("task", {})
        assert not slow.done()
        made.cancel("", "verdict")

    run(tmp_path, scenario)


def test_who_still_waits_when_the_studio_ends_is_answered(tmp_path):
    async def scenario(made):
        await made.ask("level", {})
        waiting = [asyncio.create_task(made.ask("level", {"do": "wait", "seconds": 60})) for _ in range(2)]
        await asyncio.sleep(0.1)
        await made.close()
        assert made.closed
        assert all(one["error"]["cancelled"] for one in await asyncio.gather(*waiting))
        assert (await made.ask("level", {}))["error"]["cancelled"]
        assert made.workers["desk"].starts == 1

    run(tmp_path, scenario)


def test_a_flood_of_messages_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "MOST_WAITING", 5)

    async def scenario(made):
        found = await asyncio.gather(*(made.ask("level", {"n": n}) for n in range(40)))
        refused = [one for one in found if "error" in one]
        assert refused
        assert "too much" in refused[0]["error"]["sentence"]

    run(tmp_path, scenario)


# Starting


def test_a_port_that_is_taken_is_told_with_a_free_one():
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AtlasError, match=rf"port {port} is taken: --port (\d+) is free") as told:
            bind("127.0.0.1", port)
        free = int(str(told.value).split("--port ")[1].split()[0])
        bind("127.0.0.1", free).close()


def test_the_command_refuses_what_cannot_be(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["studio", "--no-browser", "--port", str(taken.getsockname()[1])]) == 2
    assert "is taken" in capsys.readouterr().err
    for arguments, words in (
        (["--port", "0"], "--port 0 is not allowed"),
        (["--policy", "nowhere"], "nowhere does not exist"),
        (["--host", "no.such.host.invalid"], "is no address of this machine"),
    ):
        assert main(["studio", "--no-browser", *arguments]) == 2
        assert words in capsys.readouterr().err


def test_addresses():
    assert address("127.0.0.1", 1, "t") == "http://127.0.0.1:1/t/"
    assert address("::1", 1, "t") == "http://[::1]:1/t/"


def test_every_message_has_an_answer():
    from atlas.studio.answers import Answers

    assert all(callable(getattr(Answers, name)) for name in MESSAGES)
    assert json.loads(json.dumps(list(MESSAGES))) == [*messages.MESSAGES]
