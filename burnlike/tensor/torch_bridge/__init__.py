"""A typed tensor in torch's world: torch functions, NumPy, pickle, DLPack, export, checkpointing."""
