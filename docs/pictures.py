"""Make the pictures of the documentation again: `python docs/pictures.py [NAME…]`.

Pictures that a command writes are made by the commands of tour.md itself. Those of pages, the report and the studio,
are photographs by a headless Chromium (the extra `dev`, and `apt-get install chromium`).
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
BIN = Path(sys.executable).parent
os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
ATLAS = ("atlas",)
"""Found on the path, so that commands on pages are told as `atlas …`."""


def commands() -> dict[str, list[str]]:
    """The commands of the tour that write a picture, by the name of its file."""
    lines = re.findall(r"^(atlas .*pictures/(\S+))$", (HERE / "tour.md").read_text(), re.MULTILINE)
    return {name: shlex.split(line)[1:] for line, name in lines}


def photograph(name: str, url: str, width: int, height: int, act: Callable[[Any], None] = lambda page: None) -> None:
    """A page as people see it, in few colours."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(url)
        act(page)
        page.screenshot(path=PICTURES / name)
        browser.close()
    Image.open(PICTURES / name).convert("RGB").quantize(128).save(PICTURES / name, optimize=True)


def report(folder: Path) -> None:
    """The top of a report."""
    page = folder / "report.html"
    subprocess.run([*ATLAS, "report", "zoo:quick", "--episodes", "0", "--out", str(page)], check=True)
    photograph("report.png", page.as_uri(), 1200, 1440)


def solved(page: Any) -> None:
    """Wait until the prover has found a plan."""
    page.locator("#verdict[data-verdict=solvable]").wait_for(timeout=300_000)


def studio(folder: Path) -> None:
    """The studio, once it knows whether the problem can be solved."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [*ATLAS, "studio", "hand:unspoken-key", "--policy", "zoo:quick", "--no-browser", "--port", port]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    try:
        url = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))  # type: ignore
        photograph("studio.png", url, 1400, 860, solved)
    finally:
        server.terminate()
        server.wait()


PAGES: dict[str, Callable[[Path], None]] = {"report.png": report, "studio.png": studio}


def main(names: list[str]) -> None:
    """Make those that are named, or all of them."""
    PICTURES.mkdir(exist_ok=True)
    for name, command in commands().items():
        if not names or name in names:
            print(name, flush=True)
            subprocess.run([*ATLAS, *command], check=True, cwd=HERE, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in PAGES.items():
            if not names or name in names:
                print(name, flush=True)
                make(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
