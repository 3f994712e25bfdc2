"""Twins of classes of other libraries; each file is imported when the first class of its library is converted."""
