"""Levels as pictures: PNG through pillow, SVG as text. They look like Minigrid, the view of the agent lit up."""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from atlas.domains.minigrid import grid, text
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.shapes import LIGHT, PAGE, Circle, Ink, Shape, agent_shapes, cell_shapes

TEXT_INK: Final[Ink] = (40, 42, 48)
NARROWEST: Final = 11
"""Tiles that a frame is wide at least: captions need room."""
PAGE_SHAPE: Final = 1.8
"""Width over height of the page that a picture should fill best."""
FINER: Final = 4
"""Tiles are drawn this many times larger and scaled down, for smooth edges."""


def seen(level: Level) -> np.ndarray:
    """`bool[rows, cols]`: the cells of the level that lie in the agent's view."""
    rows, cols = text.natural_cells(level).shape
    ahead = np.array(grid.STEPS[int(level.direction)])
    aside = np.array(grid.STEPS[(int(level.direction) + 1) % 4])
    offsets = np.indices((rows, cols)).transpose(1, 2, 0) - np.asarray(level.position, int)
    far, wide = offsets @ ahead, offsets @ aside
    return (far >= 0) & (far < grid.VIEW) & (np.abs(wide) <= grid.VIEW // 2)


def draw_level(level: Level, tile: int = 32, highlight: bool = True, strip: bool | None = None) -> Image.Image:
    """The level as an image. `strip`: a line below for what is carried; if not given, only when something is."""
    cells = text.natural_cells(level)
    lit = seen(level) & highlight
    carried = int(level.carrying)
    strip = carried != grid.NOTHING if strip is None else strip
    height = tile * cells.shape[0] + (_strip_height(tile) if strip else 0)
    image = Image.new("RGB", (tile * cells.shape[1], height), PAGE)
    for (row, col), code in np.ndenumerate(cells):
        faces = int(level.direction) if (row, col) == tuple(level.position.tolist()) else None
        image.paste(_tile(int(code), tile, bool(lit[row, col]), faces), (tile * col, tile * row))
    if strip:
        _draw_strip(image, carried, tile, tile * cells.shape[0])
    return image


@functools.lru_cache(maxsize=1024)
def _tile(code: int, size: int, lit: bool, faces: int | None) -> Image.Image:
    shapes = cell_shapes(code) + (agent_shapes(faces) if faces is not None else ())
    image = _draw_shapes(shapes, size, PAGE)
    if lit and code != grid.OUTSIDE_CELL:
        image = Image.blend(image, Image.new("RGB", image.size, (255, 255, 255)), LIGHT)
    return image


def _draw_shapes(shapes: Iterable[Shape], size: int, ground: Ink) -> Image.Image:
    large = size * FINER
    image = Image.new("RGB", (large, large), ground)
    pen = ImageDraw.Draw(image)
    for shape in shapes:
        if isinstance(shape, Circle):
            x, y, r = (large * v for v in (shape.x, shape.y, shape.radius))
            pen.ellipse((x - r, y - r, x + r, y + r), fill=shape.ink)
        else:
            pen.polygon([(large * x, large * y) for x, y in shape.points], fill=shape.ink)
    return image.resize((size, size), Image.Resampling.BOX)


def _strip_height(tile: int) -> int:
    return round(1.25 * tile)


def _draw_strip(image: Image.Image, carried: int, tile: int, top: int) -> None:
    """What is carried, in words and as a picture."""
    pen = ImageDraw.Draw(image)
    middle = top + _strip_height(tile) // 2
    words = f"carrying {_carried_words(carried)}"
    left = tile // 4
    if carried != grid.NOTHING:
        image.paste(_tile(carried, tile, False, None), (left, middle - tile // 2))
        left += tile + tile // 4
    pen.text((left, middle), words, TEXT_INK, _font(0.45 * tile), anchor="lm")


def _carried_words(carried: int) -> str:
    return "nothing" if carried == grid.NOTHING else f"a {text.object_phrase(carried)}"


@functools.lru_cache
def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(max(9.0, size))


def frame(
    level: Level,
    task_picture: Image.Image | None = None,
    caption: str = "",
    tile: int = 32,
    strip: bool | None = None,
) -> Image.Image:
    """One picture of a problem: the level, beside or below it its task, above both a caption."""
    parts = [draw_level(level, tile, strip=strip)] + ([task_picture] if task_picture else [])
    gap = tile // 2
    places = _places([part.size for part in parts], gap)
    width = max(NARROWEST * tile, *(x + part.width + gap for (x, _), part in zip(places, parts, strict=True)))
    lines = _wrap(caption, width - 2 * gap, 0.5 * tile)
    top = gap + round(0.75 * tile) * len(lines)
    height = top + max(y + part.height + gap for (_, y), part in zip(places, parts, strict=True))
    image = Image.new("RGB", (_even(width), _even(height)), PAGE)
    pen = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        pen.text((gap, gap // 2 + round(0.75 * tile) * number), line, TEXT_INK, _font(0.5 * tile))
    for (x, y), part in zip(places, parts, strict=True):
        image.paste(part.convert("RGB"), (x, top + y))
    return image


def _places(sizes: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Where to put one or two pictures: side by side, or one below the other where that makes the better page."""
    if len(sizes) == 1:
        return [(gap, 0)]
    (width, height), (other_width, other_height) = sizes
    beside = max((width + other_width) / PAGE_SHAPE, max(height, other_height))
    below = max(max(width, other_width) / PAGE_SHAPE, height + other_height)
    return [(gap, 0), (2 * gap + width, 0) if beside <= below else (gap, height + gap)]


def _even(length: int) -> int:
    """Films want even sizes."""
    return length + length % 2


def _wrap(caption: str, width: int, size: float) -> list[str]:
    """Break a caption where it would run over the edge."""
    lines: list[str] = []
    for word in caption.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _font(size).getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def same_size(frames: Sequence[Image.Image]) -> list[Image.Image]:
    """Frames of a film on pages of one size."""
    width, height = max(f.width for f in frames), max(f.height for f in frames)
    pages = [Image.new("RGB", (width, height), PAGE) for _ in frames]
    for page, picture in zip(pages, frames, strict=True):
        page.paste(picture, (0, 0))
    return pages


def sheet(pictures: Sequence[Image.Image], columns: int) -> Image.Image:
    """Pictures in rows on one page."""
    pages = same_size(pictures)
    width, height = pages[0].size
    page = Image.new("RGB", (width * min(columns, len(pages)), height * -(-len(pages) // columns)), PAGE)
    for number, picture in enumerate(pages):
        page.paste(picture, (width * (number % columns), height * (number // columns)))
    return page


def svg_row(pictures: Sequence[str], gap: int = 16) -> str:
    """SVG pictures side by side, as one."""
    left, height, placed = 0.0, 0.0, []
    for picture in pictures:
        width, tall = (float(_attribute(picture, name)) for name in ("width", "height"))
        placed.append(picture.replace("<svg ", f'<svg x="{left:g}" y="0" ', 1))
        left, height = left + width + gap, max(height, tall)
    size = f'width="{left - gap:g}" height="{height:g}" viewBox="0 0 {left - gap:g} {height:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n' + "".join(placed) + "</svg>\n"


def _attribute(picture: str, name: str) -> str:
    """A number among the attributes of the outermost element."""
    found = re.search(rf'<svg [^>]*\b{name}="([0-9.]+)', picture)
    assert found, f"the picture does not say its {name}"
    return found[1]


def svg_level(level: Level, tile: int = 32, highlight: bool = True) -> str:
    """The level as SVG text. Objects tell their names when pointed at."""
    cells = text.natural_cells(level)
    carried = int(level.carrying)
    rows, cols = cells.shape
    height = rows + (1.25 if carried != grid.NOTHING else 0)
    parts = [_svg_symbol(code) for code in sorted({*cells.flatten().tolist(), carried})]
    parts += [_svg_cell(int(code), row, col) for (row, col), code in np.ndenumerate(cells) if code != grid.OUTSIDE_CELL]
    parts.append(_svg_agent(level))
    parts += [
        f'<rect x="{col}" y="{row}" width="1" height="1" fill="#fff" fill-opacity="{LIGHT}" pointer-events="none"/>'
        for row, col in np.argwhere(seen(level) & highlight & (cells != grid.OUTSIDE_CELL))
    ]
    parts += [_svg_strip(carried, rows)] if carried != grid.NOTHING else []
    size = f'width="{tile * cols}" height="{tile * height:g}" viewBox="0 0 {cols} {height:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n' + "\n".join(parts) + "\n</svg>\n"


def svg_symbols(codes: Iterable[int]) -> str:
    """Symbols `cellN` of cells and `agent0` … `agent3` of the agent by direction, for pictures that share them."""
    agents = (f'<symbol id="agent{d}" viewBox="0 0 1 1">{_svg_shapes(agent_shapes(d))}</symbol>' for d in range(4))
    return "\n".join([*map(_svg_symbol, codes), *agents])


def _svg_symbol(code: int) -> str:
    return f'<symbol id="cell{code}" viewBox="0 0 1 1">{_svg_shapes(cell_shapes(code))}</symbol>'


def _svg_cell(code: int, row: float, col: float) -> str:
    kind = code >> 3
    title = f"<title>{grid.cell_name(code).replace('_', ' ')}</title>" if kind in grid.MOVABLE + grid.DOORS else ""
    return f'<use href="#cell{code}" x="{col:g}" y="{row:g}" width="1" height="1">{title}</use>'


def _svg_agent(level: Level) -> str:
    row, col = level.position.tolist()
    shapes = _svg_shapes(agent_shapes(int(level.direction)))
    return f'<g transform="translate({col} {row})"><title>agent</title>{shapes}</g>'


def _svg_strip(carried: int, rows: int) -> str:
    where = f'x="1.5" y="{rows + 0.77:g}" font-size="0.45" font-family="sans-serif" fill="{_hex(TEXT_INK)}"'
    return f"{_svg_cell(carried, rows + 0.125, 0.25)}<text {where}>carrying {_carried_words(carried)}</text>"


def _svg_shapes(shapes: Iterable[Shape]) -> str:
    return "".join(_svg_shape(shape) for shape in shapes)


def _svg_shape(shape: Shape) -> str:
    if isinstance(shape, Circle):
        return f'<circle cx="{shape.x:g}" cy="{shape.y:g}" r="{shape.radius:g}" fill="{_hex(shape.ink)}"/>'
    points = " ".join(f"{x:.4g},{y:.4g}" for x, y in shape.points)
    return f'<polygon points="{points}" fill="{_hex(shape.ink)}"/>'


def _hex(ink: Ink) -> str:
    return "#{:02x}{:02x}{:02x}".format(*ink)
