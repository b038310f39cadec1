"""Flow control: when data is asked for."""
