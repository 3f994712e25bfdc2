"""Data larger than memory: shards of rows or tokens that are reached by index, in an order computed on demand."""
