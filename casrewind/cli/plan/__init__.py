"""What the plan of a restore needs: the facts that are looked up for it, and the question to a person. For commands and picker."""
