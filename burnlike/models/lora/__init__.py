"""Models of which low-rank adapters are trained."""
