"""An aggregated Mondrian forest, an expert of `auto`."""
