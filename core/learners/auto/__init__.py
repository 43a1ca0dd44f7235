"""`auto`: learners of all families side by side, mixed row by row."""
