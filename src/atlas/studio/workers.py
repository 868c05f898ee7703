"""Workers: one process a lane, which answers one message at a time; messages wait for it, and it is started again if it
dies or takes too long. Below, what runs inside that process.

Server and worker talk in frames: a length in four bytes, then JSON.
"""

import asyncio
import contextlib
import json
import os
import signal
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, Final

from atlas.errors import AtlasError, LevelTextError, TextError, printable
from atlas.studio.messages import MESSAGES, Lane, Message, Studio

COMMAND: Final = (sys.executable, "-m", "atlas.studio.workers")
MOST_WAITING: Final = 200
"""Most messages that wait for one lane: a gallery asks for many pictures at once."""
STARTING: Final = 120.0
"""Seconds that a worker may take to start."""
GRACE: Final = 2.0
"""Seconds after which a worker that was asked to cancel something is ended."""
CANCELLED: Final = {"error": {"sentence": "cancelled", "cancelled": True}}

Reply = dict[str, Any]
"""`{"reply": …}` or `{"error": {"sentence": …}}`."""


@dataclass(eq=False)
class Job:
    """A message on its way."""

    name: str
    body: dict[str, Any]
    page: str
    """Which page sent it."""
    reply: "asyncio.Future[Reply]"
    tries: int = 0

    @property
    def message(self) -> Message:
        return MESSAGES[self.name]


class LostError(Exception):
    """A worker that ended."""


@dataclass(eq=False)
class Worker:
    """One process, which answers one message at a time."""

    studio: Studio
    command: Sequence[str] = COMMAND
    process: "asyncio.subprocess.Process | None" = None
    waiting: deque[Job] = field(default_factory=deque)
    now: Job | None = None
    """The one that is being answered."""
    starts: int = 0
    """How often it was started."""
    closed: bool = False
    """Whether the studio is ending: nothing more is answered."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: "asyncio.Task[None] | None" = None

    def add(self, job: Job) -> None:
        """Put a message at the end of the queue; those that it makes pointless are cancelled."""
        if self.closed:
            _settle(job, CANCELLED)
            return
        if job.message.newest:
            self.cancel(job.page, job.name)
        if len(self.waiting) >= MOST_WAITING:
            job.reply.set_result({"error": {"sentence": "too much is being asked at once: try again later"}})
            return
        self.waiting.append(job)
        if self._loop is None:
            self._loop = asyncio.create_task(self._run())
        self._wake.set()

    def cancel(self, page: str, name: str) -> int:
        """Cancel the messages of a page that have a name, and tell how many there were."""
        gone = [job for job in self.waiting if (job.page, job.name) == (page, name)]
        for job in gone:
            self.waiting.remove(job)
            _settle(job, CANCELLED)
        if self.now is None or (self.now.page, self.now.name) != (page, name) or self.now.reply.done():
            return len(gone)
        job = self.now
        _settle(job, CANCELLED)
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGUSR1)
            asyncio.get_running_loop().call_later(GRACE, self._end_if_still, job)
        return len(gone) + 1

    def _end_if_still(self, job: Job) -> None:
        if self.now is job:
            self._kill()

    def _kill(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    async def _end(self) -> None:
        self._kill()
        if self.process is not None:
            await self.process.wait()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            while self.waiting:
                self.now = job = self.waiting.popleft()
                if not job.reply.done():
                    await self._answer(job)
                self.now = None
            self._wake.clear()

    async def _answer(self, job: Job) -> None:
        job.tries += 1
        try:
            await self._start()
            found = await asyncio.wait_for(
                self._ask({"message": job.name, "body": job.body}), timeout=job.message.seconds
            )
            _settle(job, found)
        except TimeoutError:
            await self._end()
            sentence = f"this took longer than {job.message.seconds:g} seconds and was stopped"
            _settle(job, {"error": {"sentence": sentence}})
        except LostError:
            if job.tries == 1 and not job.message.writes and not job.reply.done():
                self.waiting.appendleft(job)
            else:
                sentence = "the process that worked on this was lost; a new one is being started: try again"
                _settle(job, {"error": {"sentence": sentence}})

    async def _start(self) -> None:
        """Start the process, unless it runs."""
        if self.process is not None and self.process.returncode is None:
            return
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=pipe)
        self.starts += 1
        try:
            ready = await asyncio.wait_for(self._ask(asdict(self.studio)), STARTING)
        except TimeoutError:
            await self._end()
            raise LostError from None
        if "ready" not in ready:
            await self._end()
            raise LostError

    async def _ask(self, content: Any) -> Reply:
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(as_frame(content))
            await process.stdin.drain()
            (length,) = struct.unpack(">I", await process.stdout.readexactly(4))
            found: Reply = json.loads(await process.stdout.readexactly(length))
            return found
        except (asyncio.IncompleteReadError, ConnectionError):
            await process.wait()
            raise LostError from None

    async def close(self) -> None:
        """End the process; what waits for it is cancelled."""
        self.closed = True
        if self._loop is not None:
            self._loop.cancel()
        for job in (*self.waiting, *([self.now] if self.now else [])):
            _settle(job, CANCELLED)
        await self._end()


def _settle(job: Job, reply: Reply) -> None:
    if not job.reply.done():
        job.reply.set_result(reply)


class Workers:
    """All workers of a studio."""

    def __init__(self, studio: Studio, command: Sequence[str] = COMMAND) -> None:
        self.workers: dict[Lane, Worker] = {lane: Worker(studio, command) for lane in ("desk", "lab")}

    async def ask(self, name: str, body: dict[str, Any], page: str = "") -> Reply:
        """The answer to a message."""
        job = Job(name, body, page, asyncio.get_running_loop().create_future())
        self.workers[job.message.lane].add(job)
        return await job.reply

    def cancel(self, page: str, name: str) -> int:
        return self.workers[MESSAGES[name].lane].cancel(page, name)

    @property
    def closed(self) -> bool:
        return any(worker.closed for worker in self.workers.values())

    async def close(self) -> None:
        await asyncio.gather(*(worker.close() for worker in self.workers.values()))


# Inside the process


class CancelledError(BaseException):
    """Raised wherever the worker is, when what it works on is no longer wanted."""


Answer = Callable[[str, dict[str, Any]], Any]
"""From a message and its fields to the reply."""


def open_desk(studio: Studio) -> Answer:
    """The function that answers messages; what it needs is imported now."""
    from atlas.programs import keep_programs
    from atlas.studio.answers import Answers

    keep_programs()
    return Answers(studio).answer


def main(opening: Callable[[Studio], Answer] = open_desk) -> None:
    """Answer until the input ends. What libraries print goes to the standard error."""
    inside, outside = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the server ends its workers itself
    busy = False

    def cancel(*_: Any) -> None:
        if busy:
            raise CancelledError

    signal.signal(signal.SIGUSR1, cancel)
    answer: Answer | None = None
    while (frame := read_frame(inside)) is not None:
        try:
            busy = True
            if answer is None:
                answer, reply = opening(Studio(**frame)), as_frame({"ready": True})
            else:
                reply = as_frame({"reply": answer(frame["message"], frame["body"])})
        except CancelledError:
            reply = as_frame(CANCELLED)
        except Exception as error:
            reply = as_frame({"error": error_payload(error)})
        finally:
            busy = False
        outside.write(reply)
        outside.flush()


def error_payload(error: Exception) -> dict[str, Any]:
    """An error as a page gets it: a sentence, and where it is to be shown."""
    if isinstance(error, LevelTextError):
        place = {"line": error.line, "column": error.column, "key": error.key}
        return {"sentence": printable(error.problem), **place}
    if isinstance(error, TextError):
        return {"sentence": str(error), "spans": [list(span) for span in error.spans]}
    if isinstance(error, AtlasError):
        return {"sentence": str(error)}
    if isinstance(error, OSError) and error.filename is not None:
        return {"sentence": printable(f"{error.filename}: {(error.strerror or 'cannot be used').lower()}")}
    import traceback

    traceback.print_exception(error)
    return {"sentence": printable(f"internal error: {type(error).__name__}: {error}"[:500]), "internal": True}


def read_frame(stream: BinaryIO) -> Any:
    """The next frame; None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    data = stream.read(struct.unpack(">I", head)[0])
    return json.loads(data)


def as_frame(content: Any) -> bytes:
    """JSON with its length before it."""
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    return struct.pack(">I", len(data)) + data


if __name__ == "__main__":
    main()
