"""What there is to know of one module or tensor of torch: wrappers, lazy parameters, memory, devices."""
