"""The public names of `burnlike.models`: each is imported from where it is defined, at its first use."""

