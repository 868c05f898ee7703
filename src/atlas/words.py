"""Numbers and times as people read them."""


def short(number: float) -> str:
    """A large number in few letters: `4.2 G`, `310 k`."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def clock(seconds: float) -> str:
    """`1:05:09` or `5:09`."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
