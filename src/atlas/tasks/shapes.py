"""A drawing as plain shapes, and its two renderings: SVG text and a picture."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from PIL import Image, ImageDraw, ImageFont

Point = tuple[float, float]
SMOOTH = 3
"""Pictures are drawn this many times larger and then shrunk."""
SLACK = 1.12
"""Room for words over what Pillow's typeface needs: browsers use another one, and are told to squeeze it."""


@dataclass(frozen=True, kw_only=True)
class Ink:
    """How a shape is painted; None paints nothing."""

    fill: str | None = None
    stroke: str | None = None
    width: float = 1.5


@dataclass(frozen=True)
class Circle:
    centre: Point
    radius: float
    ink: Ink


@dataclass(frozen=True)
class Box:
    """A rectangle with round corners."""

    corner: Point
    size: Point
    radius: float
    ink: Ink


@dataclass(frozen=True)
class Polygon:
    points: tuple[Point, ...]
    ink: Ink


@dataclass(frozen=True)
class Line:
    """Straight pieces."""

    points: tuple[Point, ...]
    ink: Ink


@dataclass(frozen=True)
class Curve:
    """A line through points that leaves and enters each of them horizontally."""

    points: tuple[Point, ...]
    ink: Ink


@dataclass(frozen=True)
class Text:
    """Words to the right of a point, or centred at it."""

    place: Point
    words: str
    size: float
    colour: str
    bold: bool = False
    centred: bool = True


@dataclass(frozen=True)
class Group:
    """Shapes with a tooltip."""

    title: str
    shapes: tuple["Shape", ...]


Shape = Circle | Box | Polygon | Line | Curve | Text | Group


def font(size: float) -> Any:
    """The typeface that comes with Pillow."""
    return ImageFont.load_default(max(1.0, size))


def text_width(words: str, size: float) -> float:
    """Room for words."""
    return float(font(100).getlength(words)) / 100 * size * SLACK


def bends(points: Sequence[Point]) -> Iterator[tuple[Point, Point, Point, Point]]:
    """The cubic pieces of a curve: start, two control points, end."""
    for (x0, y0), (x1, y1) in pairwise(points):
        reach = (x1 - x0) / 2
        yield (x0, y0), (x0 + reach, y0), (x1 - reach, y1), (x1, y1)


def to_svg(shapes: Sequence[Shape], size: Point, background: str = "#ffffff") -> str:
    """The drawing as an SVG document."""
    width, height = (f"{round(n)}" for n in size)
    body = "\n".join(_svg(shape) for shape in shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="Helvetica, Arial, sans-serif">\n<rect width="100%" height="100%" fill="{background}"/>\n'
        f"{body}\n</svg>\n"
    )


def _svg(shape: Shape) -> str:
    if isinstance(shape, Group):
        return f"<g><title>{escape(shape.title)}</title>{''.join(map(_svg, shape.shapes))}</g>"
    if isinstance(shape, Text):
        x, y = shape.place
        style = ' font-weight="bold"' * shape.bold + ' text-anchor="middle"' * shape.centred
        width = f'textLength="{text_width(shape.words, shape.size) / SLACK:.1f}" lengthAdjust="spacingAndGlyphs"'
        place = f'x="{x:.1f}" y="{y:.1f}" dy="0.35em" font-size="{shape.size:g}" fill="{shape.colour}"{style}'
        return f"<text {place} {width}>{escape(shape.words)}</text>"
    paint = _paint(shape.ink)
    if isinstance(shape, Circle):
        return f'<circle cx="{shape.centre[0]:.1f}" cy="{shape.centre[1]:.1f}" r="{shape.radius:.1f}"{paint}/>'
    if isinstance(shape, Box):
        (x, y), (w, h) = shape.corner, shape.size
        return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{shape.radius:g}"{paint}/>'
    if isinstance(shape, Curve):
        pieces = " ".join(f"C {_xy(b)} {_xy(c)} {_xy(d)}" for _, b, c, d in bends(shape.points))
        return f'<path d="M {_xy(shape.points[0])} {pieces}"{paint}/>'
    tag = "polygon" if isinstance(shape, Polygon) else "polyline"
    return f'<{tag} points="{" ".join(map(_xy, shape.points))}"{paint} stroke-linejoin="round" stroke-linecap="round"/>'


def _xy(point: Point) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"


def _paint(ink: Ink) -> str:
    stroke = f' stroke="{ink.stroke}" stroke-width="{ink.width:g}"' if ink.stroke else ""
    return f' fill="{ink.fill or "none"}"{stroke}'


def to_image(shapes: Sequence[Shape], size: Point, scale: float = 1.0, background: str = "#ffffff") -> Image.Image:
    """The drawing as a picture."""
    width, height = (max(1, round(n * scale)) for n in size)
    image = Image.new("RGB", (width * SMOOTH, height * SMOOTH), background)
    brush = _Brush(ImageDraw.Draw(image), scale * SMOOTH)
    for shape in shapes:
        brush.paint(shape)
    return image.resize((width, height), Image.Resampling.LANCZOS)


class _Brush:
    """Paints shapes at a scale."""

    def __init__(self, draw: Any, scale: float) -> None:
        self.draw, self.scale = draw, scale

    def xy(self, *points: Point) -> list[Point]:
        return [(x * self.scale, y * self.scale) for x, y in points]

    def paint(self, shape: Shape) -> None:
        if isinstance(shape, Group):
            for inner in shape.shapes:
                self.paint(inner)
        elif isinstance(shape, Text):
            self.write(shape)
        elif isinstance(shape, Circle):
            (x, y), r = shape.centre, shape.radius
            self.draw.ellipse(self.xy((x - r, y - r), (x + r, y + r)), **self.ink(shape.ink))
        elif isinstance(shape, Box):
            (x, y), (w, h) = shape.corner, shape.size
            corners = self.xy((x, y), (x + w, y + h))
            self.draw.rounded_rectangle(corners, shape.radius * self.scale, **self.ink(shape.ink))
        elif isinstance(shape, Polygon):
            self.draw.polygon(self.xy(*shape.points), fill=shape.ink.fill)
            self.line((*shape.points, shape.points[0]), shape.ink)
        elif isinstance(shape, Curve):
            self.line([point for piece in bends(shape.points) for point in _sampled(*piece)], shape.ink)
        else:
            self.line(shape.points, shape.ink)

    def ink(self, ink: Ink) -> dict[str, Any]:
        return {"fill": ink.fill, "outline": ink.stroke, "width": max(1, round(ink.width * self.scale))}

    def line(self, points: Sequence[Point], ink: Ink) -> None:
        if ink.stroke:
            width = max(1, round(ink.width * self.scale))
            self.draw.line(self.xy(*points), fill=ink.stroke, width=width, joint="curve")

    def write(self, text: Text) -> None:
        style: dict[str, Any] = {"fill": text.colour, "font": font(text.size * self.scale)}
        if text.bold:
            style |= {"stroke_width": self.scale * 0.25, "stroke_fill": text.colour}
        self.draw.text(*self.xy(text.place), text.words, anchor="mm" if text.centred else "lm", **style)


def _sampled(a: Point, b: Point, c: Point, d: Point, steps: int = 24) -> Iterator[Point]:
    """Points on a cubic piece."""
    for n in range(steps + 1):
        t = n / steps
        weights = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3)
        yield (
            sum(w * p[0] for w, p in zip(weights, (a, b, c, d), strict=True)),
            sum(w * p[1] for w, p in zip(weights, (a, b, c, d), strict=True)),
        )
