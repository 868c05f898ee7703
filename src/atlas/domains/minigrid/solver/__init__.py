"""Whether a problem of Minigrid can be solved: a batched check, and a prover."""
