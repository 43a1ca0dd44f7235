"""The hand-written part of /openapi.json."""
