"""One step of an optimizer over a whole module."""
