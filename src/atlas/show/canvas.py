"""Shapes, and what becomes of them: SVG text or pixels. Levels, tasks, panels and pages are all drawn with these.

A drawing is a plain value: shapes in one coordinate system, x to the right and y down, later ones over earlier ones.
Pillow is imported only where pixels are made.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image

Point = tuple[float, float]

# The palette

COLOURS: Final = {
    "red": "#e53935", "green": "#43b448", "blue": "#3c78f5",
    "purple": "#a555d7", "yellow": "#fad232", "gray": "#9699a0",
}  # fmt: skip
"""Colours of objects: clear of each other on a dark floor and on gray walls."""
PAGE, PALE, GROOVE, EDGE, SOFT, LINE, INK = (
    "#ffffff", "#f8f9fa", "#eceff3", "#ced4da", "#868e96", "#495057", "#212529",
)  # fmt: skip
"""From the page to the text on it."""
GOOD, FAIR, BAD, LIT, BAR, CHOSEN = "#2f9e44", "#f08c00", "#e03131", "#fff3bf", "#a5b9d7", "#226ee6"
"""Meanings: accepted, in between, rejected, where the task stands; probabilities, and the one that was chosen."""


THEME: Final = {
    PAGE: "var(--card)", PALE: "var(--ground)", GROOVE: "var(--line)", EDGE: "var(--line)",
    SOFT: "var(--dim)", LINE: "var(--dim)", INK: "var(--ink)", LIT: "var(--lit)",
}  # fmt: skip
"""Names of the colours on a page, which has its own for light and for dark readers."""


def mixed(ink: str, ground: str, share: float) -> str:
    """`share` of one colour, the rest of another."""
    pairs = ((int(ink[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


# Shapes


@dataclass(frozen=True, kw_only=True)
class _Painted:
    fill: str = ""
    """`#rrggbb`; nothing is painted where it is empty."""
    stroke: str = ""
    width: float = 1.5
    """Width of the stroke."""
    opacity: float = 1.0
    """Opacity of the fill. Pointers reach through what is not opaque."""


@dataclass(frozen=True)
class Circle(_Painted):
    centre: Point
    radius: float


@dataclass(frozen=True)
class Rectangle(_Painted):
    corner: Point
    size: Point
    radius: float = 0.0
    """Radius of its corners."""


@dataclass(frozen=True)
class Polygon(_Painted):
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Line(_Painted):
    """Straight pieces, or with `curved` pieces that leave and enter each point horizontally."""

    points: tuple[Point, ...]
    curved: bool = False


@dataclass(frozen=True)
class Text:
    """Words in one line; `at` is at half their height."""

    at: Point
    words: str
    size: float
    fill: str = INK
    bold: bool = False
    anchor: Literal["start", "middle", "end"] = "start"


@dataclass(frozen=True)
class Group:
    """Shapes in coordinates of their own, with a tooltip."""

    shapes: "tuple[Shape, ...]"
    at: Point = (0.0, 0.0)
    scale: float = 1.0
    title: str = ""
    key: str = ""
    """Its name for scripts of a page."""


@dataclass(frozen=True)
class Symbol:
    """Shapes that are drawn many times: SVG text holds them once, by name, and pixels are painted once."""

    name: str
    shapes: "tuple[Shape, ...]"
    at: Point = (0.0, 0.0)
    title: str = ""
    size: Point = (1.0, 1.0)
    """All shapes lie in a box of this size."""


Shape = Circle | Rectangle | Polygon | Line | Text | Group | Symbol


class Drawing(NamedTuple):
    """Shapes on a page of some width and height."""

    shapes: tuple[Shape, ...]
    size: Point


class Sign(NamedTuple):
    """How a domain shows a proposition: tasks know none."""

    words: str
    """As in `red ball`."""
    picture: Drawing
    """One unit high."""


Signs = Callable[[int], Sign]
"""The sign of a proposition, by id."""


def box(left: float, top: float, right: float, bottom: float, fill: str) -> Rectangle:
    """A rectangle from corner to corner."""
    return Rectangle((left, top), (right - left, bottom - top), fill=fill)


def arranged(placed: Iterable[tuple[Drawing, Point]], margin: float = 0.0) -> Drawing:
    """Drawings on one page, each with its top left corner at a point."""
    placed = list(placed)
    groups = tuple(Group(drawing.shapes, at) for drawing, at in placed)
    sizes = [(at[0] + drawing.size[0], at[1] + drawing.size[1]) for drawing, at in placed]
    return Drawing(groups, (max(x for x, _ in sizes) + margin, max(y for _, y in sizes) + margin))


def scaled(drawing: Drawing, scale: float) -> Drawing:
    """The drawing, so many times as large."""
    return Drawing((Group(drawing.shapes, scale=scale),), (scale * drawing.size[0], scale * drawing.size[1]))


# Words


_WIDTHS: Final = {
    letter: width / 100
    for width, letters in {
        24: " ,.:;!'ijlI|", 31: '-f/\\[]`{}t()r"', 47: "szx", 53: "ackevy?_J",
        72: "CDGHNOQU%", 78: "w", 87: "mM@", 95: "W",
    }.items()
    for letter in letters
}  # fmt: skip
"""Widths of letters in the typeface that comes with Pillow, by size; letters that are not listed are 0.6 wide."""


def text_width(words: str, size: float) -> float:
    """The room that words take; the typeface that knows more signs is wider."""
    return size * (1.0 if _is_plain(words) else 1.16) * sum(_WIDTHS.get(letter, 0.6) for letter in words)


def _is_plain(words: str) -> bool:
    """Whether Pillow's own typeface has all signs; it lacks such as `⊥` or `→`."""
    return all(sign < "\u0100" or sign == "…" for sign in words)


def wrap(words: str, width: float, size: float, most: int | None = None) -> list[str]:
    """Words in lines; if there are more than `most`, the rest is cut with an ellipsis."""
    lines: list[str] = []
    for word in words.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        elif len(lines) == most:
            return [*lines[:-1], lines[-1] + " …"] if lines else []
        else:
            lines.append(word)
    return lines


# SVG


def svg(drawing: Drawing, scale: float = 1.0, part_of_page: bool = False) -> str:
    """The drawing as SVG text. A part of a page takes its symbols and its ground from the page (see `definitions`)."""
    width, height = drawing.size
    head = "" if part_of_page else 'xmlns="http://www.w3.org/2000/svg" '
    shared = "" if part_of_page else definitions(symbols(drawing.shapes))
    ground = "" if part_of_page else f'<rect width="100%" height="100%" fill="{PAGE}"/>\n'
    return (
        f'<svg {head}width="{_n(scale * width)}" height="{_n(scale * height)}" viewBox="0 0 {_n(width)} {_n(height)}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img">\n{shared}{ground}'
        + "\n".join(map(_element, drawing.shapes))
        + "\n</svg>\n"
    )


def themed(drawing: Drawing) -> Drawing:
    """The drawing in the colours of the page that it is a part of."""

    def one(shape: Shape) -> Shape:
        match shape:
            case Group():
                return replace(shape, shapes=tuple(map(one, shape.shapes)))
            case Symbol():
                return shape  # the page has it
            case Text():
                return replace(shape, fill=THEME.get(shape.fill, shape.fill))
        return replace(shape, fill=THEME.get(shape.fill, shape.fill), stroke=THEME.get(shape.stroke, shape.stroke))

    return drawing._replace(shapes=tuple(map(one, drawing.shapes)))


def definitions(symbols: Iterable[Symbol]) -> str:
    """The symbols of some drawings, each once."""
    named = {symbol.name: symbol.shapes for symbol in symbols}
    parts = (f'<g id="{name}">{"".join(map(_element, shapes))}</g>' for name, shapes in sorted(named.items()))
    return "<defs>\n" + "\n".join(parts) + "\n</defs>\n" if named else ""


def symbols(shapes: Iterable[Shape]) -> Iterator[Symbol]:
    for shape in shapes:
        if isinstance(shape, Symbol):
            yield shape
        if isinstance(shape, Group | Symbol):
            yield from symbols(shape.shapes)


def _element(shape: Shape) -> str:
    match shape:
        case Group(shapes, (x, y), scale, title, key):
            moves = [f"translate({_n(x)} {_n(y)})"] * ((x, y) != (0, 0)) + [f"scale({_n(scale)})"] * (scale != 1)
            place = f' transform="{" ".join(moves)}"' if moves else ""
            named = f' data-key="{escape(key)}"' if key else ""
            return f"<g{place}{named}>{_title(title)}{''.join(map(_element, shapes))}</g>"
        case Symbol(name, _, (x, y), title):
            return f'<use href="#{name}" x="{_n(x)}" y="{_n(y)}">{_title(title)}</use>'
        case Text((x, y), words, size, fill, bold, anchor):
            style = ' font-weight="bold"' * bold + f' text-anchor="{anchor}"' * (anchor != "start")
            fit = f'textLength="{_n(text_width(words, size))}" lengthAdjust="spacingAndGlyphs"'
            place = f'x="{_n(x)}" y="{_n(y + 0.35 * size)}" font-size="{_n(size)}" fill="{fill}"{style}'
            return f"<text {place} {fit}>{escape(words)}</text>"
        case Circle((x, y), radius):
            return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"{_paint(shape)}/>'
        case Rectangle((x, y), (width, height), radius):
            box = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"' + f' rx="{_n(radius)}"' * (
                radius > 0
            )
            return f"<rect {box}{_paint(shape)}/>"
        case Line(points, curved=True):
            pieces = " ".join("C " + " ".join(map(_xy, piece[1:])) for piece in _bends(points))
            return f'<path d="M {_xy(points[0])} {pieces}"{_paint(shape)}/>'
        case _:
            tag = "polygon" if isinstance(shape, Polygon) else "polyline"
            return f'<{tag} points="{" ".join(map(_xy, shape.points))}"{_paint(shape)} stroke-linejoin="round"/>'


def _n(value: float) -> str:
    return f"{round(value, 3) + 0.0:g}"


def _xy(point: Point) -> str:
    return f"{_n(point[0])},{_n(point[1])}"


def _title(words: str) -> str:
    return f"<title>{escape(words)}</title>" if words else ""


def _paint(shape: _Painted) -> str:
    stroke = f' stroke="{shape.stroke}" stroke-width="{_n(shape.width)}"' if shape.stroke else ""
    clear = f' fill-opacity="{_n(shape.opacity)}" pointer-events="none"' if shape.opacity < 1 else ""
    return f' fill="{shape.fill or "none"}"{clear}{stroke}'


def _bends(points: Sequence[Point]) -> Iterator[tuple[Point, Point, Point, Point]]:
    """The cubic pieces of a curve: start, two control points, end."""
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (x0 + x1) / 2
        yield (x0, y0), (middle, y0), (middle, y1), (x1, y1)


# Pixels

FINER: Final = 3
"""Pictures are painted this many times larger and then reduced, for smooth edges."""


def pixels(drawing: Drawing, scale: float = 1.0) -> "Image":
    """The drawing as an image."""
    from PIL import Image

    width, height = (max(1, round(scale * length)) for length in drawing.size)
    image = Image.new("RGB", (FINER * width, FINER * height), PAGE)
    _paint_pixels(image, drawing.shapes, (0.0, 0.0), FINER * scale)
    return image.reduce(FINER)


@functools.lru_cache(maxsize=256)
def _tile(shapes: tuple[Shape, ...], size: Point, scale: float) -> "Image":
    from PIL import Image

    tile = Image.new("RGBA", (math.ceil(scale * size[0]), math.ceil(scale * size[1])), f"{PAGE}00")
    _paint_pixels(tile, shapes, (0.0, 0.0), scale)
    return tile.convert("RGB") if tile.getchannel("A").getextrema() == (255, 255) else tile


def _font(words: str, size: float) -> Any:
    """Pillow's own typeface, or one that knows more signs where it needs to."""
    return _loaded(max(1.0, size), _is_plain(words))


@functools.lru_cache
def _loaded(size: float, plain: bool) -> Any:
    from PIL import ImageFont

    if plain:
        return ImageFont.load_default(size)
    import matplotlib

    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)


def _paint_pixels(image: "Image", shapes: Iterable[Shape], origin: Point, scale: float) -> None:
    from PIL import ImageDraw

    def spread(*points: Point) -> list[Point]:
        return [(origin[0] + scale * x, origin[1] + scale * y) for x, y in points]

    opaque: Any = ImageDraw.Draw(image)
    for shape in shapes:
        if isinstance(shape, Group):
            _paint_pixels(image, shape.shapes, spread(shape.at)[0], scale * shape.scale)
            continue
        if isinstance(shape, Symbol):
            ((x, y),) = spread(shape.at)
            tile = _tile(shape.shapes, shape.size, scale)
            image.paste(tile, (round(x), round(y)), tile if tile.mode == "RGBA" else None)
            continue
        if isinstance(shape, Text):
            anchor = {"start": "lm", "middle": "mm", "end": "rm"}[shape.anchor]
            bold = 0.025 * scale * shape.size if shape.bold else 0.0
            font = _font(shape.words, scale * shape.size)
            opaque.text(spread(shape.at)[0], shape.words, shape.fill, font, anchor, stroke_width=bold)
            continue
        pen, fill = opaque, shape.fill or None
        if shape.opacity < 1:
            pen, fill = ImageDraw.Draw(image, "RGBA"), f"{shape.fill}{round(255 * shape.opacity):02x}"
        width, outline = max(1, round(scale * shape.width)), shape.stroke or None
        path: Sequence[Point] = ()
        match shape:
            case Circle((x, y), radius):
                corners = spread((x - radius, y - radius), (x + radius, y + radius))
                pen.ellipse(corners, fill, outline, width)
            case Rectangle((x, y), (across, down), radius):
                (left, top), (right, bottom) = spread((x, y), (x + across, y + down))
                if round(right) > round(left) and round(bottom) > round(top):  # Pillow paints the last pixel, too
                    box = (round(left), round(top), round(right) - 1, round(bottom) - 1)
                    pen.rounded_rectangle(box, scale * radius, fill, outline, width)
            case Polygon(points):
                pen.polygon(spread(*points), fill)
                path = (*points, points[0])
            case Line(points, curved):
                path = [point for piece in _bends(points) for point in _along(*piece)] if curved else points
        if path and outline:
            pen.line([(round(x), round(y)) for x, y in spread(*path)], outline, width, joint="curve")


def _along(a: Point, b: Point, c: Point, d: Point, steps: int = 24) -> Iterator[Point]:
    """Points on a cubic piece."""
    for t in (n / steps for n in range(steps + 1)) if a[1] != d[1] else (0.0, 1.0):
        weights = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3)
        x, y = (sum(w * p[i] for w, p in zip(weights, (a, b, c, d), strict=True)) for i in (0, 1))
        yield x, y
