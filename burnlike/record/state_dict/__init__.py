"""What `state_dict()` gives, of modules and of others, as tensors and plain values of a record."""
