"""The one place where protobuf and gRPC statuses become the types of the stores, and back."""
