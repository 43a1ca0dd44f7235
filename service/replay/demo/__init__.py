"""``onepass demo``: models on generated streams that drift, fed slowly, so that there is something to look at.

    options      the command line
    command      the steps: a service of its own or a running one, the models, rows until it is ended, cleaning up
    streams      the rows: seeded, endless, with concepts that change at known rows
    cast         the five models: what each learns, how fast, what there is to see and when
    feeding      rows into a model: batches, a change of sensors, labels that come late
    happenings   what happened, told as one line each: drifts, switches, promotions

A client like the rest of ``replay``: it knows the service by its HTTP interface alone.
"""
