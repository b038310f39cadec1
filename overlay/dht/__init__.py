"""The DHT's verbs over the router and the object manager (PIER 3.2.4, Table 3.2)."""
