"""Operations on elements: arithmetic, comparisons, reductions, products."""
