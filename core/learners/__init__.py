"""The learners, one package per family, and the catalogue that lists them."""
