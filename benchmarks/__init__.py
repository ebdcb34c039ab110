"""tbhub beside the libraries it is compared with, in one run: ``make bench``."""
