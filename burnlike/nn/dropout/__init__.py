"""Layers that are random in training."""
