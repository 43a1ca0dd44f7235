"""States as named arrays plus a JSON header: what the arrays may be, and the envelope that they are stored in."""
