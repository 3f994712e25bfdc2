"""Attention, and the encodings of positions that go with it."""
