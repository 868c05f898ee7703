"""One page about runs: curves, tables, problems, episodes."""
