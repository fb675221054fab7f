"""Evaluating checks on real rows: `verify` asks, `report` says what was found, `keep` stores violating rows."""
