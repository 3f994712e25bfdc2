"""Similarity and distance of vectors."""
