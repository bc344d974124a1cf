"""The tool that hands work to other agents. What they are and how they work is the conversation's: it passes that in."""
