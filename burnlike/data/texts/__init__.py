"""Rows of text as tokens: classes of texts, tags of words, pairs of texts, and texts alone."""
