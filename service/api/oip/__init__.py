"""The Open Inference Protocol, version 2 (KServe's, with binary tensors): inference only, by the code of batches."""
