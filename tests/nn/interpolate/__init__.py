"""Tests of resizing beside the table of cases."""
