"""Fused ops in a stock model, put in by `burnlike.interop.fuse`."""
