"""What every package shares: element batches, results, errors, limits, clock, chance, fail points."""
