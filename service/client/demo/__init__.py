"""``onepass demo``: models on generated streams that drift, fed slowly, so that there is something to look at.

Nothing of it stays: a service of its own ends with it, in one that runs already its models are deleted.
"""
