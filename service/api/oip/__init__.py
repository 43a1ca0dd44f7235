"""The Open Inference Protocol, version 2 (KServe's, with binary tensors): its predict side, by the path of batches."""
