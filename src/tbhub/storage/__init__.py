"""One small interface to files and buckets."""
