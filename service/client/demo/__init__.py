"""``onepass demo``: models on generated streams that drift, fed slowly, so that there is something to look at.

    streams    the rows: seeded, endless, with concepts that change at known rows
    models     the five models: what each learns, how fast, what there is to see and when
    feeding    rows into a model, changes of its features, labels that come late; what has happened to it since
    command    the service, the models, rows until it is ended, and the end

Nothing of it stays: a service of its own ends with it, in one that runs already its models are deleted.
"""
