"""Turns records into what people and programs read: `text`, `json`, `html`. Records in, text out; no TensorFlow."""
