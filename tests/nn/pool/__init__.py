"""Tests of pools beside the table of cases."""
