"""The calls of a session: how many there were in the last minute, and how long they take."""
