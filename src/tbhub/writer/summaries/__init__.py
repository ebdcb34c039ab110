"""One summary message per noun: what a call logs, turned into what TensorBoard reads."""
