"""Streams that show documents as they change: made once for all who look at the same."""
