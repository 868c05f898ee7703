"""A desk without JAX, for tests of what lies before it: it echoes, waits, breaks and dies as it is told."""

import os
import sys
import time

from atlas.errors import AtlasError
from atlas.studio.workers import main

COMMAND = (sys.executable, __file__)


def opening(studio):
    def answer(name, body):
        match body.get("do"):
            case "wait":
                time.sleep(body["seconds"])
            case "work":  # never looks up
                end = time.monotonic() + body["seconds"]
                while time.monotonic() < end:
                    try:
                        time.sleep(0.05)
                    except BaseException:
                        continue
            case "die":
                os._exit(3)
            case "die once":
                if not os.path.exists(body["mark"]):
                    open(body["mark"], "w").close()
                    os._exit(3)
            case "refuse":
                raise AtlasError("no")
            case "break":
                raise ZeroDivisionError("oh")
        return {"message": name, "pid": os.getpid(), **body}

    return answer


if __name__ == "__main__":
    main(opening)
