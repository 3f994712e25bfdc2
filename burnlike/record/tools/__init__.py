"""What the command line does with records: renames, comparisons, forecasts."""
