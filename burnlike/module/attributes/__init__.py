"""Attributes of a module that are neither tensors nor modules of its tree: constants, items, plain values."""
