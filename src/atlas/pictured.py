"""What shows itself as a picture in a notebook: problems, levels, tasks."""

from pkgutil import resolve_name


class Pictured:
    """A base for classes of which `atlas.show.problem` can draw a picture; nothing is loaded before one is shown."""

    def _repr_svg_(self) -> str | None:
        return resolve_name("atlas.show.problem:notebook_svg")(self)
