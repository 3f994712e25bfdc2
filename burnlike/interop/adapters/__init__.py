"""Low-rank adapters of whole models: which layers get some, peft's files, and merging."""
