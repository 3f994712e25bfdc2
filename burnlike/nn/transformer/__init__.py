"""Models made of attention and feed-forward blocks."""
