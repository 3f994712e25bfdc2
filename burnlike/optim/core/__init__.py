"""What every optimizer stands on: states as records, operations over lists, parts of sharded parameters."""
