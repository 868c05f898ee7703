"""Everything of a run on disk: run folders, checkpoints, metrics, problem files."""
