"""GA2M: additive models of binned columns and their pairs."""
