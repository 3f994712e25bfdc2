"""The bytes of files: sources, budgets, checksums, values. Only `values` imports torch."""
