"""Virtual environments as text: their builds, differences, promotions and checkpoints."""
