"""What several tests need: TensorBoard as the oracle, and damage to order."""
