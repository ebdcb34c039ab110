"""Writing tfevents: SummaryWriter and what it is made of."""
