"""Gradients by parameter id: taking, adding, clipping, placing."""
