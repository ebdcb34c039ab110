"""What there is: workspaces, experiments and runs, how they are chosen and how they are named."""
