"""Programs that run in the environments of peers; each imports that peer and the standard library."""
