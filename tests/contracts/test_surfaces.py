"""Laws of surfaces that levels are made on by hand: what is painted, moved or resized is a level or a sentence."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import corridor
from atlas.domains import DOMAINS, domain_of, settings_class, surface_of, vocabulary_of
from atlas.errors import LevelTextError
from atlas.tasks.formats import parse_task
from atlas.tasks.machine import natural_size
from atlas.tasks.packed import pack
from atlas.types import Problem, Surface


@pytest.fixture(params=["minigrid", "letterworld", "corridor"])
def name(request, monkeypatch):
    if request.param == "corridor":
        corridor.register(monkeypatch)
        surface_of.cache_clear()
    assert request.param in DOMAINS
    yield request.param
    surface_of.cache_clear()


@pytest.fixture
def surface(name):
    made = surface_of(name)
    assert isinstance(made, Surface)
    return made


def places(surface, level):
    tiles = surface.tiles(level)
    rows = len(tiles["cells"]) // tiles["cols"]
    return list(itertools.product(range(rows), range(tiles["cols"])))


def check(surface, level):
    """A level that can be: sound, and the same after it was written and read."""
    assert surface.sound(jax.tree.map(lambda leaf: np.asarray(leaf)[None], level)).all()
    again = surface.parse_level(surface.format_level(level))
    assert surface.format_level(again) == surface.format_level(level)
    assert surface.tiles(again) == surface.tiles(level)


def attempt(act):
    try:
        return act()
    except LevelTextError:
        return None


def test_brushes_have_names_of_their_own_and_look_like_symbols(surface):
    brushes = surface.brushes()
    assert len({brush.name for brush in brushes}) == len(brushes)
    assert {name for brush in brushes for name in brush.symbols} <= {symbol.name for symbol in surface.symbols()}


def test_what_is_painted_is_a_level_or_a_sentence(surface):
    painted = 0
    for level in surface.templates().values():
        check(surface, level)
        for brush, place in itertools.product(surface.brushes()[::4], places(surface, level)[::23]):
            made = attempt(lambda level=level, brush=brush, place=place: surface.paint(level, brush.name, *place))
            if made is not None:
                check(surface, made)
                painted += 1
    assert painted >= 2


def test_the_first_brush_undoes_the_others(surface):
    level = next(iter(surface.templates().values()))
    clear, *others = surface.brushes()
    for place in places(surface, level)[::5]:
        cleared = attempt(lambda place=place: surface.paint(level, clear.name, *place))
        for brush in others:
            if cleared is not None and brush.group != "agent":
                made = attempt(lambda c=cleared, b=brush, place=place: surface.paint(c, b.name, *place))
                if made is not None:
                    back = surface.paint(made, clear.name, *place)
                    assert surface.format_level(back) == surface.format_level(cleared)


def test_there_is_one_agent_and_it_can_be_moved(surface):
    level = next(iter(surface.templates().values()))
    start = tuple(surface.tiles(level)["at"])
    moved = 0
    for place in places(surface, level):
        made = attempt(lambda place=place: surface.move(level, start, place))
        if made is not None:
            check(surface, made)
            assert tuple(surface.tiles(made)["at"]) == place
            moved += 1
    assert moved > 1


@pytest.mark.parametrize("place", [(-1, 0), (0, -1), (0, 10_000), (10_000, 0)])
def test_places_outside_are_refused(surface, place):
    level = next(iter(surface.templates().values()))
    inside = tuple(surface.tiles(level)["at"])
    for act in (
        lambda: surface.paint(level, surface.brushes()[0].name, *place),
        lambda: surface.move(level, inside, place),
        lambda: surface.move(level, place, inside),
        lambda: surface.paint(level, "no such brush", *inside),
    ):
        with pytest.raises(LevelTextError):
            act()


def test_a_level_grows_and_shrinks_back(surface):
    for level in surface.templates().values():
        tiles = surface.tiles(level)
        rows, columns = len(tiles["cells"]) // tiles["cols"], tiles["cols"]
        for size in ((rows, columns + 1), (rows + 1, columns), (rows, columns), (rows - 1, columns), (0, 0), (99, 99)):
            made = attempt(lambda level=level, size=size: surface.resize(level, *size))
            if made is not None:
                check(surface, made)
                found = surface.tiles(made)
                assert (len(found["cells"]) // found["cols"], found["cols"]) == size
        assert surface.format_level(surface.resize(level, rows, columns)) == surface.format_level(level)


def test_its_example_can_be_solved_and_seen(name, surface):
    entries = dict(surface.example())
    task = parse_task(entries.pop("task"), vocabulary_of(name))
    level = surface.parse_level(entries)
    problem = Problem.unchecked(level=level, task=pack(task, natural_size(task)))
    assert surface.solve_many([problem])[0].plan
    domain = domain_of(settings_class(name)())
    view = np.asarray(domain.view(domain.reset(jax.tree.map(jnp.asarray, surface.pad(level)))))
    tiles = surface.view_tiles(view)
    assert len(tiles["cells"]) == view.size
    assert tiles["cols"] == view.shape[1]
