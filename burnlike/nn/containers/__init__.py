"""Layers that are made of layers: models that are put together in YAML."""
