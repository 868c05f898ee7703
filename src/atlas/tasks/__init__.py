"""Tasks: what to do, as machines over propositions. Knows nothing of grids: a proposition is an integer."""
