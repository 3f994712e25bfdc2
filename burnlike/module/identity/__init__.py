"""Facts about one module or tensor that need no walk: ids, metadata, lazy tensors, torch's wrappers."""
