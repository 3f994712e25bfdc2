"""Vectors of layers and losses: records with a `module`, their calls and what they expect."""
