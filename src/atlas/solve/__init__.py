"""Joins levels and tasks: can this problem be solved, and how?"""
