"""`atlas studio`: draw levels, say tasks, prove, play and watch, in a browser."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from atlas.commands.inputs import DOMAIN
from atlas.errors import AtlasError


@dataclass(frozen=True)
class StudioArgs:
    """Open the studio in a browser: draw a level, say a task, see whether it can be done, play it, watch a policy.

    It listens on this machine only, and its address has a token in it that changes each time. Files are read from and
    written to the folder it is started on: that of the file or set if one is given, else the current one.
    """

    file: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="FILE_OR_SET")] = None
    """A file or folder of problems, the name of a set (`hand`) or of one of its problems, or a run folder."""
    domain: Annotated[str | None, DOMAIN] = None
    """The world to begin in, if no file or set is given."""
    policy: str | None = None
    """A policy to watch: a run folder, one of its checkpoints or policies, or zoo:NAME."""
    host: str = "127.0.0.1"
    """The address to listen on. With another one than this, everybody who can reach it and knows the token can use
    it."""
    port: int = 8765
    """The port to listen on."""
    browser: bool = True
    """Open a browser."""
    read_only: bool = False
    """Nothing can be saved."""
    json: bool = False
    """Print JSON: the address."""


def studio_command(argv: list[str]) -> int:
    """Serve until it is interrupted."""
    args = tyro.cli(StudioArgs, args=argv, prog="atlas studio")
    if not 1 <= args.port <= 65_535:
        raise AtlasError(f"--port {args.port} is not allowed: from 1 to 65535")
    from atlas.runs.metrics import extra

    extra("uvicorn", "the studio", "studio")
    extra("starlette", "the studio", "studio")
    from atlas.domains import known_domain
    from atlas.runs.folder import is_in_zoo, located
    from atlas.studio.messages import Studio
    from atlas.studio.server import bind, serve

    if args.file is not None and args.domain is not None:
        raise AtlasError(f"--domain is for a studio without a file: {args.file} says itself of which domain it is")
    root, given = _folder(args.file)
    if args.policy is not None and not located(args.policy).exists():
        raise AtlasError(f"{args.policy} does not exist: a run folder, a checkpoint or a policy (npz) is needed")
    policy = args.policy
    if policy is not None and not is_in_zoo(policy):
        policy = str(Path(policy).resolve())
    studio = Studio(str(root), given, policy, args.read_only, known_domain(args.domain))
    with bind(args.host, args.port) as listening:

        def tell(url: str) -> None:
            print(json.dumps({"url": url}) if args.json else url, flush=True)
            if not args.json:
                print("Ctrl-C ends the studio.", file=sys.stderr)
            if args.browser:
                import webbrowser

                webbrowser.open(url)

        serve(studio, args.host, args.port, listening, tell)
    return 0


def _folder(words: str | None) -> tuple[Path, str | None]:
    """The folder that files are read from and written to, and what is opened first."""
    if words is None:
        return Path.cwd(), None
    name = ""
    path = Path(words)
    if not path.exists():
        before, _, name = words.rpartition(":")
        if not before or not Path(before).exists():
            return Path.cwd(), words  # a set with a name, or one of its problems
        path = Path(before)
    path = path.resolve()
    return (path if path.is_dir() else path.parent), f"{path}:{name}" if name else str(path)
