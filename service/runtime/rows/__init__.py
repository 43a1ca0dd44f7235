"""Rows of a request checked against a model."""
