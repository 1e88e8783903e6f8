"""The caller's side: a driver in a fleet, its background loop, its gatekeeper, and the operators' client."""
