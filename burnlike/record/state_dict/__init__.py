"""The results of `state_dict()`, of modules and of others, as tensors and plain values of a record."""
