"""What goes over the wire between the hub and its clients, typed once for both."""
