"""Settings: TOML and YAML files, targets, connections, secrets."""
