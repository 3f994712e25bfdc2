"""The one walk over a module tree, and what it yields: paths, ids and `Param`s."""
