"""Whole families of models of other libraries, which lie in `.cache/families`: `make .cache/families/.installed`."""
