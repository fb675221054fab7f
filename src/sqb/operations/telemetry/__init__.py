"""What other systems hear of a build while it runs: OpenLineage events and OpenTelemetry traces."""
