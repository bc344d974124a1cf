"""Features of a conversation: one folder each, with all that it has."""
