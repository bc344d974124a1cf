"""Pages that keep things in order: the doctor, how to upgrade, a report of a bug, the index of the code."""
