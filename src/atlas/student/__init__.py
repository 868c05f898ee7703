"""The policy: a network over view and task, trained by PPO."""
