"""Questions about what was captured, changed and by whom (timeline, provenance, compare, search ...). Nothing is changed here."""
