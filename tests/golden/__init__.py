"""What Burn wrote and computed, and `python -m tests.golden DIR...`, which checks burnlike against it."""
