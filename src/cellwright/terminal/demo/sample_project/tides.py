"""Water levels of a harbour: read them, smooth them, find high tide."""

import csv
from pathlib import Path


def read_levels(path):
    """The levels in metres, one every ten minutes, in the order of the file."""
    with Path(path).open(newline="") as file:
        return [float(row["level_m"]) for row in csv.DictReader(file)]


def rolling_mean(values, window):
    """The mean of each run of `window` neighbouring values; shorter than `values` by `window - 1`."""
    if window < 1:
        raise ValueError("window must be at least 1")
    means = []
    for start in range(len(values) - window):
        means.append(sum(values[start : start + window]) / window)
    return means


def high_tide(values, window=3):
    """Index and level of the highest smoothed value; the index is that of the window's first value."""
    smooth = rolling_mean(values, window)
    index = max(range(len(smooth)), key=smooth.__getitem__)
    return index, smooth[index]
