"""The version of the client, which is that of the service it was released with."""

__version__ = "0.1.0"
