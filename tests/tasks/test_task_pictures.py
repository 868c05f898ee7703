"""Drawings of machines: nothing overlaps, everything is there."""

import itertools
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.bridge import unpack
from atlas.tasks.draw import draw_task, svg_task
from atlas.tasks.english import english
from atlas.tasks.icons import ICONS, Sign, Thing, sign_of
from atlas.tasks.layout import Link, arrange
from atlas.tasks.sample import SAMPLERS
from atlas.tasks.terminal import text_task
from twins.drawn import drawn, single
from twins.vocabularies import fruit

NODE = (40.0, 40.0)


def overlap(a, b):
    """Whether two boxes (centre, size) share room."""
    ((x, y), (w, h)), ((p, q), (v, g)) = a, b
    return abs(x - p) < (w + v) / 2 - 1e-6 and abs(y - q) < (h + g) / 2 - 1e-6


def boxes(layout, nodes, links):
    return [*zip(layout.nodes, nodes, strict=True), *zip(layout.labels, (link.label for link in links), strict=True)]


graphs = st.integers(1, 6).flatmap(
    lambda n: st.lists(
        st.builds(Link, st.integers(0, n - 1), st.integers(0, n - 1), st.tuples(st.floats(20, 200), st.floats(20, 90))),
        max_size=9,
    ).map(lambda links: (n, links))
)


@given(graphs)
@settings(max_examples=60)
def test_nodes_and_labels_never_overlap(graph):
    count, links = graph
    layout = arrange([NODE] * count, links)
    for a, b in itertools.combinations(boxes(layout, [NODE] * count, links), 2):
        assert not overlap(a, b)


@given(graphs)
@settings(max_examples=40)
def test_lines_join_their_ends_and_pass_through_no_other_label(graph):
    count, links = graph
    layout = arrange([NODE] * count, links)
    for i, (link, route) in enumerate(zip(links, layout.routes, strict=True)):
        assert route[0] == layout.nodes[link.source]
        assert route[-1] == layout.nodes[link.target]
        for j, (x, y) in enumerate(layout.labels):
            others = [(layout.labels[j], links[j].label)] if j != i else []
            for (p, q), (r, s) in itertools.pairwise(route):
                straight = q == s and p != r
                middle = (((p + r) / 2, q), (abs(r - p), 0.0))
                assert not (straight and any(overlap(middle, other) for other in others)), (x, y)


def test_a_sequence_is_one_straight_line():
    links = [Link(0, 1, (50.0, 20.0)), Link(1, 2, (90.0, 50.0)), Link(2, 3, (50.0, 20.0))]
    layout = arrange([NODE] * 4, links)
    assert len({y for _, y in [*layout.nodes, *layout.labels]}) == 1
    assert [x for x, _ in layout.nodes] == sorted(x for x, _ in layout.nodes)


DIAMOND = (
    "1. Either go to a ball, then continue with step 2, or pick up a blue key, then fail (reward -1).\n"
    "2. Go to an open door while not carrying a ball, then continue with step 1, or go to a door, then finish."
)


def test_svg_holds_states_words_and_tooltips():
    root = ElementTree.fromstring(svg_task(english(DIAMOND, VOCABULARY), VOCABULARY, current=(0, 1)))
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert {"u0", "u1", "uA", "uR", "ball", "blue key", "open door", "not ball", "-1"} <= set(texts)
    assert "go to a ball while not carrying a blue key" in titles
    assert {"u1: running, current", "u0: initial", "uA: accepting", "uR: rejecting"} <= set(titles)


def test_hierarchies_show_their_machines_and_calls():
    task = english("Main task: 1. Go to a ball and do routine 1. Routine 1: 1. Go to a key.", VOCABULARY)
    svg = svg_task(task, VOCABULARY, current=(1, 0))
    assert all(words in svg for words in ("m0 (root)", ">m1<", "m1 |", "u0: initial, current"))
    text = text_task(task, VOCABULARY, current=(1, 0))
    assert text.splitlines() == [
        "m0 (root)",
        "→ u0 ─── m1 | ● go to a ball ──▶ uA ✓",
        "m1",
        "▶ u0 ─── ⚷ go to a key ──▶ uA ✓",
    ]


def test_terminal_text():
    text = text_task(english(DIAMOND, VOCABULARY), VOCABULARY, current=(0, 0))
    assert text.splitlines() == [
        "▶ u0 ─┬─ ● go to a ball ──▶ u1",
        "      └─ ⚷ pick up a blue key ──▶ uR ✗  (-1)",
        "  u1 ─┬─ ▯ go to an open door and ● not carrying a ball ──▶ u0",
        "      └─ ▯ go to a door ──▶ uA ✓",
        "Negations that only keep the edges of a state apart are not shown.",
    ]
    coloured = text_task(english("go to a red ball", VOCABULARY), VOCABULARY, colour=True)
    assert "\x1b[31m●\x1b[0m go to a red ball" in coloured


def test_signs_come_from_features():
    def sign(name):
        return sign_of(VOCABULARY.ids[name], VOCABULARY, ICONS)

    assert sign("front_door_red_locked") == Sign("front", (Thing("door", "red", "locked"),))
    assert sign("carrying_ball") == Sign("carrying", (Thing("ball", "", ""),))
    assert sign("next_ball_key_blue").words == "ball + blue key"
    assert sign_of(0, fruit(), ICONS) is None
    assert all(sign_of(p, VOCABULARY, ICONS) for p in range(len(VOCABULARY.names)))


def test_other_vocabularies_are_drawn_in_words():
    svg = svg_task(english("eat a kiwi, then eat a fig", fruit()), fruit())
    assert ">kiwi<" in svg
    assert text_task(english("eat a kiwi", fruit()), fruit()) == "→ u0 ─── eat a kiwi ──▶ uA ✓"


def test_pictures_show_the_current_state_and_scale():
    task = english("go to a red ball", VOCABULARY)
    plain, marked = draw_task(task, VOCABULARY, scale=1.0), draw_task(task, VOCABULARY, current=(0, 0), scale=1.0)
    assert plain.size == marked.size
    assert plain.tobytes() != marked.tobytes()
    assert abs(draw_task(task, VOCABULARY, scale=2.0).size[0] - 2 * plain.size[0]) <= 1
    red = [(r, g, b) for _, (r, g, b) in plain.getcolors(100_000) if r > 200 and g < 80 and b < 80]
    assert red


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampled_task_can_be_drawn(name):
    for i in range(6):
        task = unpack(single(drawn(name), i))
        ElementTree.fromstring(svg_task(task, VOCABULARY))
        assert draw_task(task, VOCABULARY, scale=0.5).size[0] > 0
        assert "uA ✓" in text_task(task, VOCABULARY)
