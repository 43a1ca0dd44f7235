"""The Open Inference Protocol, version 2: its predict side, by the path of ``/models/{name}/predict/batch``.

    schemas     bodies and answers as the protocol names them
    tensors     one tensor, as JSON or binary, to the values of rows
    requests    the tensors of a request to rows that a model can predict
    answers     predictions to tensors
    metadata    what a model's tensors are called, and what they hold
    routes      /v2...

The protocol is KServe's (Open Inference Protocol, REST, with the binary tensor data extension).
"""
