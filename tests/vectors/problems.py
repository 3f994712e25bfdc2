"""Why a case has no verdict of its own."""


class UnknownError(Exception):
    """An operation, key, flag, argument form or element type that the runner does not know. Always a failure."""
