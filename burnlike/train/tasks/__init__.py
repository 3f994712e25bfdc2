"""Tasks that a model is trained for: one folder or file for each."""
