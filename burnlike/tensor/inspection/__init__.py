"""Metadata, reading, printing and gradients of a tensor."""
