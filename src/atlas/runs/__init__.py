"""What touches disk: run folders, checkpoints, metrics, problem files."""
