"""Can it be done? The paper's check for thousands of problems at once, and verdicts with proof for single ones."""
