"""The bytes of files: sources, budgets, blocks, checksums, conversion. Only conversion and blocks import torch."""
