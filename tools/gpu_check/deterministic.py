"""Imported by a training whose bits are compared: torch takes kernels that give the same each time."""

import torch

torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = False  # which costs time, and nothing here reads any
