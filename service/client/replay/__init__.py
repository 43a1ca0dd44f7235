"""``onepass replay`` and ``compare``: a file through a service, row by row, in the order of the file.

    table      the rows of CSV or Parquet, in batches; what its columns hold, in which notation
    replay     one model
    compare    several algorithms side by side: one model with challengers
    report     progress, tables, and what the figures mean in words
    chart      the curves over the rows (matplotlib, the extra onepass[replay])

Every row is predicted before its label is known, then learned; all figures are of these predictions.
"""
