"""`auto`: a mixture of learners of all families, weighted row by row."""
