"""The program of `make gpu-check`: all that can be told of a GPU in nine minutes, each part in a process of its own."""
