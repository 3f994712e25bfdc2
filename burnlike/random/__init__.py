"""Random numbers as functions of a key. `burnlike.mlax.Key` is the public name."""
