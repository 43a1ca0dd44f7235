"""``onepass replay`` and ``compare``: a file through a service, in the order of the file.

Every row is predicted before its label is known, then learned; all figures are of these predictions.
"""
