"""Drop-ins for the writers people use today: change the import and nothing else."""
