"""What the agent sees and which propositions hold, in plain Python: slow, obvious, and sharing nothing with atlas.

Cells are names (`floor`, `ball_red`, `door_blue_locked`), positions (row, column), directions 0 up, 1 right, 2 down,
3 left.
"""

TYPES = ["ball", "square", "key", "door"]
COLOURS = ["red", "green", "blue", "purple", "yellow", "gray", None]
STATES = ["closed", "locked", "open", None]


def all_names():
    """The alphabet in order."""
    names = [name("front", (kind, c, None)) for kind in TYPES[:3] for c in COLOURS]
    names += [name("front", ("door", c, s)) for s in STATES for c in COLOURS]
    names += [name("carrying", (kind, c, None)) for kind in TYPES[:3] for c in COLOURS]
    for i1, kind1 in enumerate(TYPES[:3]):
        for c1, colour1 in enumerate(COLOURS):
            for kind2 in TYPES[i1:]:
                for colour2 in COLOURS[c1:] if kind2 == kind1 else COLOURS:
                    for state2 in STATES if kind2 == "door" else [None]:
                        names.append(name("next", (kind1, colour1, None), (kind2, colour2, state2)))
    return names


def name(*parts):
    words = [parts[0]]
    for thing in parts[1:]:
        words += [word for word in thing if word]
    return "_".join(words)


def view(grid, position, direction, carrying):
    """5 rows of 5 names; the agent is at (4, 2) and looks up."""
    forward = [(-1, 0), (0, 1), (1, 0), (0, -1)][direction]
    right = [(-1, 0), (0, 1), (1, 0), (0, -1)][(direction + 1) % 4]
    rows = []
    for ahead in (4, 3, 2, 1, 0):
        row = []
        for aside in (-2, -1, 0, 1, 2):
            r = position[0] + ahead * forward[0] + aside * right[0]
            c = position[1] + ahead * forward[1] + aside * right[1]
            inside = 0 <= r < len(grid) and 0 <= c < len(grid[0])
            row.append(grid[r][c] if inside else "outside")
        rows.append(row)
    rows[4][2] = carrying or "floor"
    return rows


def label(seen):
    """The names of all propositions that hold, given a view."""
    found = {name("front", thing) for thing in readings(seen[3][2])}
    found |= {name("carrying", thing) for thing in readings(seen[4][2])}
    for row in range(5):
        for column in range(5):
            for r, c in ((row + 1, column), (row, column + 1)):
                if r < 5 and c < 5 and (4, 2) not in ((row, column), (r, c)):
                    found |= pair_names(seen[row][column], seen[r][c])
    return found


def pair_names(one, other):
    pairs = [sorted((a, b), key=rank) for a in readings(one) for b in readings(other)]
    return {name("next", a, b) for a, b in pairs if a[0] != "door"}


def rank(thing):
    return TYPES.index(thing[0]), COLOURS.index(thing[1])


def readings(cell):
    """Every way to describe an object, most of them leaving something out; none for floor, walls and outside."""
    kind, *rest = cell.split("_")
    if kind not in TYPES:
        return []
    states = [rest[1], None] if kind == "door" else [None]
    return [(kind, colour, state) for colour in (rest[0], None) for state in states]
