"""Jobs that are written from a look at the data: `burnlike init --from DATA`."""
