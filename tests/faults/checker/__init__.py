"""The checker: one file for each family of properties, named as in jepsen.tests.kafka where it has a name."""
