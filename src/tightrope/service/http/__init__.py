"""Experiments behind HTTP: routes and their handlers, who may ask, how much at once."""
