"""Learning rates for each step, their configs and records."""
