"""What every operation stands on: specs, kinds, element types, operands, axes and sizes."""
