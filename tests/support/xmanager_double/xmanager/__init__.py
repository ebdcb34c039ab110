"""Stands in for XManager where a launch script is run as a test: its classes by shape.

A job is a program that is run on this machine, whatever its executor; on Vertex it is told where to
log, as jobs there are. Put the directory above on ``PYTHONPATH``.
"""
