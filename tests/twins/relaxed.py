"""The paper's check in plain Python: sets of rooms, sets of doors, one task step at a time.

A level is a picture of names; regions are flooded cell by cell through everything but walls and locked doors.
"""

import itertools

from twins import labels

AROUND = ((-1, 0), (1, 0), (0, -1), (0, 1))
INFINITE = float("inf")


def solvable(grid, position, carrying, edges, accepting) -> bool:
    """Whether some path of guards can be satisfied by objects within reach, doors being unlocked in any order.

    Edges are (source, target, positive names, negative names).
    """
    todo, seen = [(0, frozenset())], set()
    while todo:
        u, unlocked = stage = todo.pop()
        if u in accepting:
            return True
        if stage in seen:
            continue
        seen.add(stage)
        objects, doors, openable = within_reach(grid, position, carrying, unlocked)
        todo += [(u, unlocked | {door}) for door in openable]
        for source, target, positive, negative in edges:
            contradicts = any(implies(p, q) for p in positive for q in negative)
            if source == u and not contradicts and all(attainable(p, objects, doors) for p in positive):
                todo.append((target, unlocked))
    return False


def steps_left(grid, position, carrying, edges, accepting, states) -> dict:
    """For each task state and each set of unlocked doors: how many transitions and doors to unlock are left, None if
    there is no way, and the colours of the doors that a shortest way unlocks next."""
    places = [(r, c) for r, row in enumerate(grid) for c, name in enumerate(row) if name.endswith("locked")]
    sets = [frozenset(chosen) for n in range(len(places) + 1) for chosen in itertools.combinations(places, n)]
    opens, came_from = {}, {}
    for unlocked in sets:
        objects, doors, opens[unlocked] = within_reach(grid, position, carrying, unlocked)
        for source, target, positive, negative in edges:
            contradicts = any(implies(p, q) for p in positive for q in negative)
            if not contradicts and all(attainable(p, objects, doors) for p in positive):
                came_from.setdefault((target, unlocked), set()).add((source, unlocked))
        for u in range(states):
            for door in opens[unlocked]:
                came_from.setdefault((u, unlocked | {door}), set()).add((u, unlocked))
    left, layer, steps = {}, {(u, unlocked) for u in accepting for unlocked in sets}, 0
    while layer:
        left |= dict.fromkeys(layer, steps)
        layer = set().union(*(came_from.get(stage, set()) for stage in layer)) - set(left)
        steps += 1
    found = {}
    for u, unlocked in itertools.product(range(states), sets):
        own = left.get((u, unlocked))
        nearer = [door for door in opens[unlocked] if left.get((u, unlocked | {door}), INFINITE) < (own or 0)]
        found[u, unlocked] = own, {at(grid, door).split("_")[1] for door in nearer}
    return found


def within_reach(grid, position, carrying, unlocked):
    """Movable objects (with repetitions), doors in the states they can take, and locked doors that a key fits."""
    region, edge = {position}, [position]
    touched = set()
    while edge:
        row, column = edge.pop()
        for down, right in AROUND:
            place = row + down, column + right
            name = at(grid, place)
            if name.startswith("door"):
                touched.add(place)
            is_free = name not in ("wall", "outside") and (not name.endswith("locked") or place in unlocked)
            if is_free and place not in region:
                region.add(place)
                edge.append(place)
    touched |= {place for place in region if at(grid, place).startswith("door")}
    objects = [at(grid, place) for place in region if at(grid, place).split("_")[0] in ("ball", "square", "key")]
    objects += [carrying] if carrying else []
    doors, openable = set(), []
    for place in touched:
        _, colour, state = at(grid, place).split("_")
        if state == "locked" and place not in unlocked:
            doors.add(f"door_{colour}_locked")
            openable += [place] * (f"key_{colour}" in objects)
        else:
            doors |= {f"door_{colour}_open", f"door_{colour}_closed"}
    return objects, doors, openable


def at(grid, place):
    row, column = place
    inside = 0 <= row < len(grid) and 0 <= column < len(grid[0])
    return grid[row][column] if inside else "outside"


def attainable(prop, objects, doors) -> bool:
    location, *_ = prop.split("_")
    if location != "next":
        things = objects + (sorted(doors) if location == "front" else [])
        return any(labels.name(location, reading) == prop for thing in things for reading in labels.readings(thing))
    others = [(i, thing) for i, thing in enumerate(objects)] + [(-1, door) for door in doors]
    return any(prop in labels.pair_names(one, other) for i, one in enumerate(objects) for j, other in others if i != j)


def implies(one, other) -> bool:
    """Whether the first proposition says all that the second says: the same words and more, object by object."""
    (here, *mine), (there, *yours) = (split(name) for name in (one, other))
    if here != there or len(mine) != len(yours):
        return False
    orders = [mine, mine[::-1]]
    return any(all(set(b) <= set(a) for a, b in zip(order, yours, strict=True)) for order in orders)


def split(name):
    """A location, then the words of each object."""
    location, *words = name.split("_")
    objects = []
    for word in words:
        if word in labels.TYPES:
            objects.append([])
        objects[-1].append(word)
    return [location, *objects]
