"""States as named arrays plus a JSON header: packing, nesting, and the sealed envelope they are stored in."""
