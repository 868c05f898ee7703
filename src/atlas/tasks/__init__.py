"""Tasks: what to do, as machines over propositions. Knows nothing of grids: a proposition is an integer."""

from collections.abc import Callable

translate: Callable[[str], str] | None = None
"""A function of yours that puts what `english` does not understand into words that it does, e.g. by asking a language
model: `atlas.tasks.translate = ask`. Its answer is read like any other text, and a note says what it was."""
