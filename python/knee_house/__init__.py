"""What only those who maintain knee run: ``python -m knee_house`` in a checkout. The wheel does not have it."""
