"""Blocks of vision models."""
