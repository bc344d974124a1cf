"""What runs send and print, recorded byte by byte: the oracle that a change of the code's layout is held against.

`python -m benchmarks.oracle record FOLDER` plays every scene against the strict local Messages API server;
`python -m benchmarks.oracle compare FOLDER` plays them again and shows each difference, or compares two recordings.
"""
