"""Benchmarks of ready models."""
