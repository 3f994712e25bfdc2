"""Datasets made of other datasets."""
