"""Frameworks' own loggers and callbacks, writing to a run; each a file that nobody else imports."""
