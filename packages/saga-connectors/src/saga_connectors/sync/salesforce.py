"""Salesforce for synchronous callers: the same actions, to be called without a running loop."""

from saga_connectors import salesforce

patch_object = salesforce.patch_object.blocking()
