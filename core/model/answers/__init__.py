"""From a learner's prediction to the answer: labels with calibrated probabilities, numbers near those seen."""
