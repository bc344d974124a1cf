"""Loading a skill into the conversation. Where skills come from is `config/skills`; what a call renders to is said by
the conversation, which passes that in.
"""
