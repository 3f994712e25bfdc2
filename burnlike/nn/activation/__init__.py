"""Activations that have weights."""
