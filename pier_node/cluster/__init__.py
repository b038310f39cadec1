"""Node processes on this machine: a directory of them, starting, watching and stopping them."""
