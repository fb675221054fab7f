"""What tests stand on: a project in a folder of its own, a lake of its own, and the one Spark of the test run."""
