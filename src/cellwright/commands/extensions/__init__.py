"""Pages about what users bring along: instructions and skills."""
