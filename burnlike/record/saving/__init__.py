"""Writes records: converted while they are written, by threads, in the background, in sets of files."""
