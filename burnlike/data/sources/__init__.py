"""Data sets that are read from files."""
