"""Speaking to providers: one attempt over the network, and when to make another."""
