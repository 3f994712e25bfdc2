"""The update rules: one file each, with what they share."""
