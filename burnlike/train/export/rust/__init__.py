"""Models as crates of Rust for Burn."""

CARGO = ("Cargo.lock", "target")
"""What cargo makes in a crate."""
