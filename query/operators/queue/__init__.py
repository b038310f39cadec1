"""Queue: where the dataflow comes up for air."""
