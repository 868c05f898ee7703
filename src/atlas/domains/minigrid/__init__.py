"""Minigrid: rooms, doors, keys, balls and squares on a grid."""
