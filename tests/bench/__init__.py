"""The measurements themselves: their arithmetic, and that they run."""
