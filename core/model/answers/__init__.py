"""What is answered of a learner's predictions: labels with calibrated probabilities, numbers near those seen."""
