"""Values: what casrewind knows, with no input or output, no clock and no environment."""
