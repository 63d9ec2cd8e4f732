"""Benchmarks: of the main job in one process (bench_*.py), and of whole processes side by side with others (compare)."""
