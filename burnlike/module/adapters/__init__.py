"""Layers that transform a parameter before the module computes with it: LoRA, weight normalization, your own."""
