"""What all routes share: keys, bodies, problems, headers, strict JSON."""
