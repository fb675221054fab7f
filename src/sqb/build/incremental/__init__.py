"""Results from the changes of inputs, exactly, or the reason why a node is rebuilt instead."""
