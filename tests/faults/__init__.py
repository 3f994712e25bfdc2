"""What fails while files are written, beyond single records (`tests/record/crash`): commands and jobs."""
