"""Encoder-decoders in the layout of T5."""
