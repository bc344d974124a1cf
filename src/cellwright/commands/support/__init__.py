"""Pages for when something is wrong or old: the doctor, how to upgrade, a report of a bug."""
