"""Views of a run for a person: progress, logs, reports."""
