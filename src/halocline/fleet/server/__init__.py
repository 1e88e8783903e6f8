"""The coordinator's side: the service behind gRPC and HTTP, who may do what, and what is answered."""
