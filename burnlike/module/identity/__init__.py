"""What is known of one module or one tensor, without a walk: ids, metadata, lazy tensors, torch's wrappers."""
