import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["base", "plain"])
def test_examples_in_docstrings_run(name):
    failed, tried = doctest.testmod(importlib.import_module(f"burnlike.config.{name}"))
    assert tried
    assert not failed
