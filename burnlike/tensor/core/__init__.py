"""The base of every operation: specs, kinds, element types, operands, axes and sizes."""
