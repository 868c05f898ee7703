"""The map of what was seen, in plain Python: slow, obvious, and sharing nothing with atlas.

It remembers cells as they looked when they were last seen. Cells, positions and directions are as in `twins.labels`;
`unseen` is a name, too, and what is forbidden has `forbidden` in the place of its colour.
"""

from functools import cache

from twins import labels

HEADINGS = [(-1, 0), (0, 1), (1, 0), (0, -1)]
FAR_TO_FAR = [range(7, 19), range(4, 7), range(1, 4), range(1), range(-3, 0), range(-6, -3), range(-18, -6)]
"""How far ahead the rows of blocks are; the columns are as far to the left."""
ORDER = ["outside", "floor", "wall", "unseen", "ball", "square", "key", "closed", "locked", "open"]
"""What counts more comes later."""
SIGNS = [*labels.COLOURS, "forbidden"]


def in_sight(position, direction):
    """The places that the agent sees, its own among them."""
    return {place(position, direction, ahead, left) for ahead in range(5) for left in range(-2, 3)}


def place(position, direction, ahead, left):
    """Row and column of a cell so far ahead and to the left."""
    forward, leftward = HEADINGS[direction], HEADINGS[direction - 1]
    row, column = (ahead * forward[axis] + left * leftward[axis] for axis in (0, 1))
    return position[0] + row, position[1] + column


def remember(memory, grid, position, direction):
    """What is known of each place, now that the agent is where it is."""
    now = {}
    for row, column in in_sight(position, direction):
        inside = 0 <= row < len(grid) and 0 <= column < len(grid[0])
        now[row, column] = grid[row][column] if inside else "outside"
    return memory | now


def picture(memory, grid, position, direction, carrying, wanted, forbidden):
    """The 25 cells of the view, then the 49 blocks of the map: (whether it is asked for, its name)."""
    goals, bans = ([thing for one in about for thing in things_of(one)] for about in (wanted, forbidden))
    shown = [cell for row in labels.view(grid, position, direction, carrying) for cell in row]
    cells = [marked(name, goals, bans) for name in shown]
    for rows in FAR_TO_FAR:
        for columns in FAR_TO_FAR:
            places = (place(position, direction, ahead, left) for ahead in rows for left in columns)
            names = {memory.get(there, "unseen") for there in places}
            cells.append(max((marked(name, goals, bans) for name in names), key=weight))
    return cells


def ways(memory, position, direction, carrying, wanted, forbidden):
    """To the nearest of what is asked for, of what was not seen, of keys and of locked doors: where the first step
    leads and how many it takes to be beside it; None if no way is known."""
    goals, bans = ([thing for one in about for thing in things_of(one)] for about in (wanted, forbidden))

    def free(there):
        name = memory.get(there, "unseen")
        if name.endswith("_locked"):
            return carrying == f"key_{name.split('_')[1]}" and not asked(name, bans)
        return name == "floor" or name.startswith("door_")

    kinds = [
        lambda name: name != "unseen" and asked(name, goals),
        lambda name: name == "unseen",
        lambda name: name.startswith("key_"),
        lambda name: name.endswith("_locked"),
    ]
    found = []
    for is_one in kinds:
        targets = {there for there in surroundings(memory) if there != position and is_one(memory.get(there, "unseen"))}
        found.append(way(position, direction, targets, free))
    return found


def surroundings(memory):
    """All places that are known, and those beside them."""
    return {(row + down, column + right) for row, column in memory for down, right in [*HEADINGS, (0, 0)]}


def way(position, direction, targets, free):
    turns = {"ahead": direction, "right": direction + 1, "left": direction + 3, "behind": direction + 2}
    firsts = {turn: beside(position)[heading % 4] for turn, heading in turns.items()}
    lengths = {turn: 0 if there in targets else None for turn, there in firsts.items()}
    if not any(length == 0 for length in lengths.values()):
        lengths = {turn: far(there, targets, free) for turn, there in firsts.items()}
    known = [length for length in lengths.values() if length is not None]
    return next(((turn, length) for turn, length in lengths.items() if length in known and length == min(known)), None)


def beside(there):
    return [(there[0] + down, there[1] + right) for down, right in HEADINGS]


def far(there, targets, free):
    """One more than the steps from a place to one beside a target."""
    steps, new, been = 1, {there} if free(there) else set(), set()
    while new:
        if any(near in targets for one in new for near in beside(one)):
            return steps
        been |= new
        steps, new = steps + 1, {near for one in new for near in beside(one) if free(near)} - been
    return None


def marked(name, goals, bans):
    shown = name
    if asked(name, bans):
        kind, _, *state = name.split("_")
        shown = "_".join([kind, "forbidden", *state])
    return asked(name, goals), shown


def asked(name, things):
    return any(thing in readings(name) for thing in things)


readings = cache(labels.readings)


def weight(cell):
    is_asked, name = cell
    words = name.split("_")
    return is_asked, ORDER.index(words[-1] if words[0] == "door" else words[0]), SIGNS.index(colour(words))


def colour(words):
    return words[1] if len(words) > 1 else None


@cache
def things_of(proposition):
    """What a proposition is about, by its name: (type, colour, state of a door), None where it does not say."""
    found = []
    for word in proposition.split("_")[1:]:
        if word in labels.TYPES:
            found.append([word, None, None])
        else:
            found[-1][1 if word in labels.COLOURS else 2] = word
    return [tuple(thing) for thing in found]
