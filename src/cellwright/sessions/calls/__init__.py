"""What a session knows of the calls in it: how many there were in the last minute, and how long they take."""
