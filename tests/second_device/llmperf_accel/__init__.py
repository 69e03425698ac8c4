"""A vendor for tests: two devices of torch's second device type, `accel`, that are not there."""
