"""How good policies are: playing attempts, sets to compare on, statistics, results."""
