"""What several tests need. Nothing here shares code with the project: pictures of trees are taken by other means."""
