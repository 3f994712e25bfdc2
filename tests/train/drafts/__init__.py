"""Jobs that are written from data."""
