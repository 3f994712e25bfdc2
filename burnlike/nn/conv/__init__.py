"""Convolutions, and the rearrangements of pixels and windows."""
