"""The state tables (`_sqlbuild_…`) of a lake."""
