"""The ids of tensors, and what else a module keeps about its fields."""
