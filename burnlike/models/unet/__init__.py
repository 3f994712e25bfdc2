"""U-Nets."""
