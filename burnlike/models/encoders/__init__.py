"""Encoders of text and of images."""
