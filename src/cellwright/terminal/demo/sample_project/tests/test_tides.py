import unittest
from pathlib import Path

from tides import high_tide, read_levels, rolling_mean

DATA = Path(__file__).parent.parent / "data" / "levels.csv"


class RollingMean(unittest.TestCase):
    def test_mean_of_each_window(self):
        self.assertEqual(rolling_mean([1, 2, 3, 4], 2), [1.5, 2.5, 3.5])

    def test_window_of_one_changes_nothing(self):
        self.assertEqual(rolling_mean([3, 1, 2], 1), [3, 1, 2])

    def test_window_must_be_positive(self):
        with self.assertRaises(ValueError):
            rolling_mean([1, 2], 0)


class HighTide(unittest.TestCase):
    def test_high_tide_at_the_end_of_the_day(self):
        index, level = high_tide(read_levels(DATA))
        self.assertEqual(index, 33)
        self.assertAlmostEqual(level, 3.68, places=2)


if __name__ == "__main__":
    unittest.main()
