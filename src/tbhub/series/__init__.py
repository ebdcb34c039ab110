"""From event files to series: every point of every tag of every run, as columns."""
