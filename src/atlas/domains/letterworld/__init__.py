"""A torus of letters: one agent, four moves, tasks over the letter that it stands on."""
