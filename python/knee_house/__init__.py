"""Commands for those who maintain knee: ``python -m knee_house`` in a checkout. The wheel does not have them."""
