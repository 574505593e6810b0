"""Clients: processes of several workers each, which write down what they ask and what they are told."""
