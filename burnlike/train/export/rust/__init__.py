"""Models as crates of Rust for Burn."""
