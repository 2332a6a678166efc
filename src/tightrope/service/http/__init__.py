"""Experiments behind HTTP: routes and their handlers, access, and limits."""
