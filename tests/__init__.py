"""The tests: a package, so that helpers are imported by one name from everywhere."""
