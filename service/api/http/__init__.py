"""What all routes share: keys, bodies, problems, headers, conditional reads."""
