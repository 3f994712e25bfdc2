"""Where bytes come from, and the tensors in them."""
