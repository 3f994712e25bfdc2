"""The state of a training: all that it needs to go on with the same bits."""
