"""The process behind a lane: messages in, replies out, one at a time; a signal cancels the one that is answered.

A frame is its length in four bytes, then JSON. `python -m atlas.studio.worker` is started by `atlas.studio.lanes`.
"""

import json
import os
import signal
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from atlas.errors import AtlasError, LevelTextError, TextError, printable
from atlas.studio.messages import Studio


class CancelledError(BaseException):
    """Raised wherever the worker is, when what it works on is no longer wanted."""


Answer = Callable[[str, dict[str, Any]], Any]
"""From a message and its fields to the reply."""


def open_desk(studio: Studio) -> Answer:
    """Who answers; what it needs is imported now."""
    from atlas.programs import keep_programs
    from atlas.studio.desk import Desk

    keep_programs()
    return Desk(studio).answer


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
    reply: dict[str, Any]
    while (frame := read_frame(inside)) is not None:
        try:
            busy = True
            if answer is None:
                answer, reply = opening(Studio(**frame)), {"ready": True}
            else:
                reply = {"reply": answer(frame["message"], frame["body"])}
        except CancelledError:
            reply = {"error": {"sentence": "cancelled", "cancelled": True}}
        except Exception as error:
            reply = {"error": told(error)}
        finally:
            busy = False
        write_frame(outside, reply)


def told(error: Exception) -> dict[str, Any]:
    """What a page needs to know of an error: a sentence, and where it is to be shown."""
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


def write_frame(stream: BinaryIO, content: Any) -> None:
    stream.write(as_frame(content))
    stream.flush()


def as_frame(content: Any) -> bytes:
    """JSON with its length before it."""
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    return struct.pack(">I", len(data)) + data


if __name__ == "__main__":
    main()
