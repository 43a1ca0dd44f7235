"""Tables of rows, by media type."""
