"""Who belongs to the ring, whether it is there or not (see `roster`)."""
