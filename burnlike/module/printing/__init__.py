"""Modules as text, as Burn prints them."""
