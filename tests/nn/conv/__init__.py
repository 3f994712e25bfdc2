"""Tests of convolutions beside the table of cases."""
