"""What a person reads: one line of result first, then the details. What scripts read is made in shapes."""
