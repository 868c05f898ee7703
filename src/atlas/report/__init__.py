"""One page about runs, made from their folders alone: curves, tables, curriculum, episodes."""
