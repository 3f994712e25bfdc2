"""Elements in host memory, tolerances to compare them, and distributions to draw them from."""
