"""`atlas presets`: what comes in the box."""

import json
from dataclasses import dataclass

import tyro

from atlas.presets import PRESETS, preset
from atlas.settings import dump, to_plain


@dataclass(frozen=True)
class Args:
    """List the presets, one line each, or print one whole."""

    name: tyro.conf.Positional[str | None] = None
    """The preset to print as a config."""
    json: bool = False
    """Print JSON."""


def main(argv: list[str]) -> int:
    """Print the list, or one config."""
    args = tyro.cli(Args, args=argv, prog="atlas presets")
    if args.name is not None:
        config = preset(args.name).config
        print(json.dumps(to_plain(config), indent=2) if args.json else dump(config), end="\n" if args.json else "")
    elif args.json:
        print(json.dumps({name: entry.summary for name, entry in PRESETS.items()}, indent=2))
    else:
        width = max(map(len, PRESETS))
        for name, entry in PRESETS.items():
            print(f"{name:<{width}}  {entry.summary}")
    return 0
