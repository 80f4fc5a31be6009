"""Tells whether the program grows, why, and what cures it."""
