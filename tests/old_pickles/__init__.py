"""Pickles that an older version wrote, and what it said about each."""
