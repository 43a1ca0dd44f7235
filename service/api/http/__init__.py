"""What every route has: keys, bodies, problems, headers, conditional reads."""
