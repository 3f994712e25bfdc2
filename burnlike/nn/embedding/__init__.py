"""Tables of vectors."""
