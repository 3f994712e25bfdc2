"""Operations on a whole tree: visit, map, replace, copy, move, train and freeze."""
