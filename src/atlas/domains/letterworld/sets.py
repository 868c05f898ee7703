"""x"""
SETS = ()
