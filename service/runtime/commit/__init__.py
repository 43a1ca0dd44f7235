"""From a request's row to its answer: queued, appended with others, applied, answered."""
