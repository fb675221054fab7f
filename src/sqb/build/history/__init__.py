"""What a build records: runs, fingerprints, freshness; and what a killed build left out."""
