"""What `make gpu-check` runs: all that can be told of a GPU in nine minutes, each part in a process of its own."""
