"""What is done to a whole tree: visit, map, replace, copy, move, train and freeze."""
