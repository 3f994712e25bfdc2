"""Loads records into modules: matching, checking, filling and reporting."""
