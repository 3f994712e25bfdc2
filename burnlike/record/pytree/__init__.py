"""Records of dataclasses, maps and lists: what is made of tensors and plain values."""
