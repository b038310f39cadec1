"""Prefix Hash Trees: keys in order over the DHT (PIER 3.3.3; Ramabhadran, Ratnasamy, Hellerstein and Shenker 2004)."""
