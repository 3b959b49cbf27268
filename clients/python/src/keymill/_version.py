"""The version, which the packaging reads from here."""

__version__ = "0.1.0"
