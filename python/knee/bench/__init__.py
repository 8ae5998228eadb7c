"""How fast this machine simulates: ``knee bench``."""
