"""Records and layouts of types: dataclasses, modules, whatever state_dict gives."""
