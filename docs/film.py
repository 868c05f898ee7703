"""The film on the README's first screen: a policy of the zoo does what a sentence says.

    python docs/film.py [OUT.gif]        # or `make film`; writes docs/figures/film.gif

It is `atlas watch` with a task, a number of rooms and a seed; whoever wants another film changes these.
"""

import sys
from pathlib import Path

from atlas.cli import main

TASK = "open a door, then pick up a blue key, then put it next to a ball"
ARGUMENTS = ["zoo:laptop", "--task", TASK, "--rooms", "4", "--seed", "0", "--fps", "5"]
OUT = Path(__file__).parent / "figures" / "film.gif"

if __name__ == "__main__":
    sys.exit(main(["watch", *ARGUMENTS, "--film", sys.argv[1] if len(sys.argv) > 1 else str(OUT)]))
