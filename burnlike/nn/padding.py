"""Padding of convolutions and pools: Burn's `Valid`, `Same` and explicit sizes."""
