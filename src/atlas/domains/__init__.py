"""Worlds in which tasks are played. A domain knows nothing of reward machines."""
