"""``python -m tbhub.hub``: a hub with settings from the environment alone."""

import gc

gc.disable()  # while everything is imported

from tbhub.hub.server import main  # noqa: E402

main()
