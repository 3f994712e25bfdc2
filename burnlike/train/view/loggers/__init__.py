"""Callbacks that send metrics to other programs."""
