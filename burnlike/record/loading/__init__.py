"""Putting records into modules: matching, checking, filling, and what to say about it."""
