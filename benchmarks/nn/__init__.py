"""Benchmarks of layers and losses."""
