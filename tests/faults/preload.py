"""What takes a service longest before it serves, done once in the process that services are forked from."""

import gc

import service.client.serving
import service.main  # noqa: F401
from core.learners.catalogue import ALGORITHMS

for name in ("auto", "dfop", "rls", "dynamic_odm", "fesl_c"):
    ALGORITHMS[name].load()
gc.collect()
gc.freeze()  # a service collects as it starts, and passes over this
