"""Unit tests of models, run on Spark before the models."""
