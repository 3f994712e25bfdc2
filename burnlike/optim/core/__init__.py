"""The base of every optimizer: states as records, operations over lists, parts of sharded parameters."""
