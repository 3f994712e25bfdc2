"""The decoder-only language model."""
