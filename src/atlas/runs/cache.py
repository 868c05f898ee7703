"""What is kept between processes so that it need not be made again: compiled programs, held-out problems."""

import os
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Where ATLAS keeps what it would otherwise have to make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "atlas"


def remember_compiled() -> None:
    """Keep compiled programs between processes, unless the user has arranged that already: the next start is quick.

    JAX finds them by the program, the compiler's options and its own version, so none is ever used for another.
    """
    import jax

    settings: Any = jax.config
    if settings.jax_compilation_cache_dir is None:
        settings.update("jax_compilation_cache_dir", str(cache_folder() / "compiled"))
