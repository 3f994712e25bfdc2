"""The HTML page of `burnlike report`."""
