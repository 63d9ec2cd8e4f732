"""casrewind and others, side by side: whole processes, in turn, on copies of the same tree."""
