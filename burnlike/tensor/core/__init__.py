"""The base of every operation: specs, kinds, element types, operands, dimensions and slices."""
