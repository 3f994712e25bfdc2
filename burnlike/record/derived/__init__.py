"""Records and layouts of other things: dataclasses, modules, everything with a `state_dict`."""
