"""The front end: gRPC server, clients, command line, Spark."""
