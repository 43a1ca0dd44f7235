"""Stores as the code of each format of states has left them, and what it answered then."""
