"""Sources of bytes, and the tensors in them."""
