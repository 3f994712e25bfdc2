"""Which parameters are meant: groups and the rules they are made of. Imports no torch."""
