"""Burn's test vectors and the runner that checks burnlike against them: `python -m tests.vectors FILE...`."""
