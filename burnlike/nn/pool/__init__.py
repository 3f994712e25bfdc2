"""Pools: maxima and averages of windows."""
