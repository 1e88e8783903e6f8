"""Version 1 of the wire protocol, package `halocline.fleet.v1`."""
