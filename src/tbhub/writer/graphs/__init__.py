"""Models drawn as TensorBoard graphs, one module for each kind of model file or object."""
