"""Typed tensors in PyTorch: torch functions, NumPy, pickle, DLPack, export, checkpointing."""
