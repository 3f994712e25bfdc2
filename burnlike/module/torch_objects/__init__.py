"""Facts about one module or tensor of torch: wrappers, lazy parameters, memory, devices."""
