"""`python -m atlas` is `atlas`."""

import sys

from atlas.cli import main

if __name__ == "__main__":
    sys.exit(main())
