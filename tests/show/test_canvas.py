"""The canvas: what is written as SVG, and what pixels show."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from atlas.show import canvas
from atlas.show.canvas import Circle, Drawing, Group, Line, Polygon, Rectangle, Symbol, Text

DOT = Symbol("dot", (Circle((0.5, 0.5), 0.5, fill="#ff0000"),))
ALL = Drawing(
    (
        Rectangle((0, 0), (20, 10), 2, fill="#00ff00", stroke="#000000"),
        Polygon(((0, 0), (4, 0), (0, 4)), fill="#0000ff"),
        Line(((0, 0), (10, 5), (20, 5)), curved=True, stroke="#000000"),
        Line(((0, 10), (20, 10)), stroke="#000000"),
        Group((DOT, Text((1, 1), "a < b", 2.0, bold=True, anchor="middle")), (10, 5), 4.0, "two & more"),
        Symbol(DOT.name, DOT.shapes, (2, 2), "dot"),
        Rectangle((15, 0), (5, 10), fill="#ffffff", opacity=0.5),
    ),
    (20, 10),
)


def test_svg_is_well_formed_and_holds_symbols_once() -> None:
    text = canvas.svg(ALL, 2.0)
    root = ElementTree.fromstring(text)
    assert (root.get("width"), root.get("viewBox")) == ("40", "0 0 20 10")
    assert text.count('id="dot"') == 1
    assert text.count('href="#dot"') == 2


def test_a_part_of_a_page_takes_symbols_from_the_page() -> None:
    part = canvas.svg(ALL, part_of_page=True)
    assert 'id="dot"' not in part
    assert 'id="dot"' in canvas.definitions([DOT, DOT])


def test_pixels_are_where_shapes_are() -> None:
    image = canvas.pixels(ALL, 10)
    assert image.size == (200, 100)
    assert image.getpixel((120, 70)) == (255, 0, 0)
    assert image.getpixel((25, 25)) == (255, 0, 0)
    assert image.getpixel((14, 22)) == (0, 0, 255)
    red, green, blue = image.getpixel((175, 30))
    assert (green, red) == (255, blue)
    assert 126 <= red <= 129


def test_words_are_wrapped_and_cut() -> None:
    words = "go to a ball and then to another one"
    lines = canvas.wrap(words, 100, 12)
    assert " ".join(lines) == words
    assert all(canvas.text_width(line, 12) <= 100 for line in lines)
    assert canvas.wrap(words, 100, 12, most=1) == [lines[0] + " …"]
    assert canvas.wrap("", 100, 12) == []


def test_the_table_of_letters_fits_the_typeface() -> None:
    plain = ("red ball + locked purple door", "not carrying a yellow key", "What is replayed after 12M steps")
    for words in (*plain, "PLR⊥: a → b"):
        assert 0.95 < canvas.text_width(words, 10) * 100 / canvas._font(words, 1000.0).getlength(words) < 1.08


def test_drawing_and_svg_need_no_pillow() -> None:
    code = (
        "import sys; from atlas.show import problem, media; from atlas.domains.minigrid import draw, text;"
        "level = text.parse_level('######\\n##>.##\\n######'); print(len(problem.svg(level)) > 0, 'PIL' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "False"]
