"""A training job from a config: what `burnlike train` runs."""
