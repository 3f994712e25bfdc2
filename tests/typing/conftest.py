"""The programs in right/ and wrong/ are for type checkers: pytest must not import them."""

collect_ignore_glob = ["right/*", "wrong/*"]
