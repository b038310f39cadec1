"""Union: several producers, one consumer."""
