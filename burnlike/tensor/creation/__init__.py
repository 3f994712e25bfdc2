"""Tensors from data, ranges, one value or random numbers, and in other types."""
