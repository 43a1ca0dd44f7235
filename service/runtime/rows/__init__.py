"""Rows of a request checked against a model, and the process that reads large bodies."""
