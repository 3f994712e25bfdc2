"""Encoders in the layout of BERT."""
