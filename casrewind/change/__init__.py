"""What changes the files of a project: each verb prepares a change, which is shown, carried out, undone and finished after a kill."""
