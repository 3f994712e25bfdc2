"""The processes that train one model: one alone, or several by a strategy."""
