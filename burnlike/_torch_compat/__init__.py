"""Names of torch that are private: the only place that uses them; one file for each part of torch.

A private name can change with any version of torch. So each function and constant here says what it is for and what
happens without the name, `tests/torch_compat` tries each by itself and fails by its name, and
`tests/test_private_names.py` refuses private names of torch in all other files. The tests were run with torch 2.11.0,
2.13.0, 2.14.1 and 2.15.0, which have all of them.

Four names stay where they are used: `_parameters`, `_buffers`, `_modules` and `_non_persistent_buffers_set`, the
dicts of a module. torch has no public way to write to them, and every walk over a module tree reads them.
"""
