"""Random calls of each op: `random_call(chance)` of a file here makes one."""
