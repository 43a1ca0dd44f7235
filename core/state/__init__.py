"""States as named arrays plus a JSON header: declarations of the arrays, and the envelope that stores them."""
