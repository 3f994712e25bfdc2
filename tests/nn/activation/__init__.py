"""Tests of activations beside the table of cases."""
