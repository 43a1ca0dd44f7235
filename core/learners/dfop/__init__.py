"""DFOP, G-DFOP, RLS and Sparse-DFOP: least squares over a stream, with forgetting."""
