"""From a checked request and a prepared batch to an `Attribution`."""
