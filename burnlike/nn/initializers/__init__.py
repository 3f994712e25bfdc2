"""How parameters get their first values."""
