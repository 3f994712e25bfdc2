"""What stands in front of a parameter: reparameterizations, LoRA, weight normalization."""
