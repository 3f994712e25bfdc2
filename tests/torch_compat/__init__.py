"""Each private name of torch in `burnlike/_torch_compat` still is there and does what it is used for.

Each file there has one here, and each name a test that is called after it (`test_is_view`, `test_HOOKS`), so that what
fails in another version of torch is known by name.
"""
