"""Rust of Burn's layers, written from configs. It imports no torch."""
