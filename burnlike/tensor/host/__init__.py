"""Elements in host memory, and what they are compared with or drawn from."""
