"""Low-rank adapters of a model's layers, in the files of peft."""
