"""Tests of losses beside those of the table of cases."""
