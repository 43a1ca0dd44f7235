"""``onepass demo``: models on generated streams that drift, fed slowly, so that there is something to look at.

Nothing remains: its own service ends with it; in a service that runs already, its models are deleted.
"""
