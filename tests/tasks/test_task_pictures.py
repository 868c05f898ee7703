"""Drawings of machines: nothing overlaps, everything is there."""

import itertools
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.domains.minigrid import draw
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.show import canvas
from atlas.tasks.draw import NODE, arrange, task_drawing, task_text
from atlas.tasks.english import english as read_english
from atlas.tasks.packed import unpack
from atlas.tasks.sample import SAMPLERS
from twins.drawn import drawn, single
from twins.vocabularies import fruit


def english(text, vocabulary=VOCABULARY):
    return unpack(read_english(text, vocabulary))


def drawing(task, current=None):
    return task_drawing(task, VOCABULARY, draw.sign, current)


def lines(task, current=None):
    return task_text(task, VOCABULARY, current).plain.splitlines()


def overlap(a, b):
    """Whether two boxes (centre, size) share room."""
    ((x, y), (w, h)), ((p, q), (v, g)) = a, b
    return abs(x - p) < (w + v) / 2 - 1e-6 and abs(y - q) < (h + g) / 2 - 1e-6


graphs = st.integers(1, 6).flatmap(
    lambda n: st.lists(
        st.tuples(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), st.tuples(st.floats(20, 200), st.floats(20, 90))
        ),
        max_size=9,
    ).map(lambda edges: (n, [link for link, _ in edges], [label for _, label in edges]))
)


@given(graphs)
@settings(max_examples=60)
def test_nodes_and_labels_never_overlap(graph):
    count, links, labels = graph
    layout = arrange(count, links, labels)
    boxes = [*((node, NODE) for node in layout.nodes), *zip(layout.labels, labels, strict=True)]
    for a, b in itertools.combinations(boxes, 2):
        assert not overlap(a, b)


@given(graphs)
@settings(max_examples=40)
def test_lines_join_their_ends_and_pass_through_no_other_label(graph):
    count, links, labels = graph
    layout = arrange(count, links, labels)
    for i, ((source, target), route) in enumerate(zip(links, layout.routes, strict=True)):
        assert route[0] == layout.nodes[source]
        assert route[-1] == layout.nodes[target]
        others = [box for j, box in enumerate(zip(layout.labels, labels, strict=True)) if j != i]
        for (p, q), (r, s) in itertools.pairwise(route):
            if q == s and p != r:
                assert not any(overlap((((p + r) / 2, q), (abs(r - p), 0.0)), other) for other in others)


def test_a_sequence_is_one_straight_line():
    layout = arrange(4, [(0, 1), (1, 2), (2, 3)], [(50.0, 20.0), (90.0, 50.0), (50.0, 20.0)])
    assert len({y for _, y in [*layout.nodes, *layout.labels]}) == 1
    assert [x for x, _ in layout.nodes] == sorted(x for x, _ in layout.nodes)


DIAMOND = (
    "1. Either go to a ball, then continue with step 2, or pick up a blue key, then fail (reward -1).\n"
    "2. Go to an open door while not carrying a ball, then continue with step 1, or go to a door, then finish."
)


def test_svg_holds_states_words_and_tooltips():
    root = ElementTree.fromstring(canvas.svg(drawing(english(DIAMOND), (0, 1))))
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert {"u0", "u1", "uA", "uR", "ball", "blue key", "open door", "not ball", "-1"} <= set(texts)
    assert "go to a ball while not carrying a blue key" in titles
    assert {"u1: running, current", "u0: initial", "uA: accepting", "uR: rejecting"} <= set(titles)


def test_hierarchies_show_their_machines_and_calls():
    task = english("Main task: 1. Go to a ball and do routine 1. Routine 1: 1. Go to a key.")
    svg = canvas.svg(drawing(task, (1, 0)))
    assert all(words in svg for words in ("m0 (root)", ">m1<", "m1 |", "u0: initial, current"))
    assert lines(task, (1, 0)) == [
        "m0 (root)",
        "→ u0 ─── m1 | ● go to a ball ──▶ uA ✓",
        "m1",
        "▶ u0 ─── ⚷ go to a key ──▶ uA ✓",
    ]


def test_terminal_text():
    assert lines(english(DIAMOND), (0, 0)) == [
        "▶ u0 ─┬─ ● go to a ball ──▶ u1",
        "      └─ ⚷ pick up a blue key ──▶ uR ✗  (-1)",
        "  u1 ─┬─ ▯ go to an open door and ● not carrying a ball ──▶ u0",
        "      └─ ▯ go to a door ──▶ uA ✓",
        "Negations that only keep the edges of a state apart are not shown.",
    ]
    coloured = task_text(english("go to a red ball"), VOCABULARY)
    assert "red" in [span.style for span in coloured.spans if coloured.plain[span.start : span.end] == "●"]


def test_other_vocabularies_are_drawn_in_words():
    svg = canvas.svg(task_drawing(english("eat a kiwi, then eat a fig", fruit()), fruit()))
    assert ">kiwi<" in svg
    assert task_text(english("eat a kiwi", fruit()), fruit()).plain == "→ u0 ─── eat a kiwi ──▶ uA ✓"


def test_pictures_show_the_current_state_and_scale():
    task = english("go to a red ball")
    plain, marked = canvas.pixels(drawing(task)), canvas.pixels(drawing(task, (0, 0)))
    assert plain.size == marked.size
    assert plain.tobytes() != marked.tobytes()
    assert abs(canvas.pixels(drawing(task), 2.0).size[0] - 2 * plain.size[0]) <= 1
    assert [(r, g, b) for _, (r, g, b) in plain.getcolors(100_000) if r > 200 and g < 80 and b < 80]


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampled_task_can_be_drawn(name):
    for i in range(6):
        task = unpack(single(drawn(name), i))
        ElementTree.fromstring(canvas.svg(drawing(task)))
        assert canvas.pixels(drawing(task), 0.5).size[0] > 0
        assert any("uA ✓" in line for line in lines(task))
