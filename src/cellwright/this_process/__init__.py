"""The whole process: its files, and the one door of late imports.

Below everything else that is ours; start with either module.
"""
