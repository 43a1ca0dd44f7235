"""HTTP: thin handlers over the runtime."""
