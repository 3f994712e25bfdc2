"""The command line's operations on records: renames, comparisons, forecasts."""
