"""``onepass demo``: models on generated streams that drift, fed slowly, so that there is something to look at."""
