"""The gRPC server: any `Store` behind the service jjq.v1.Jjq."""
