"""Values of casrewind's domain, without input or output, clock or environment."""
