"""A fitted model as one file, and back; and other files, written whole or not at all."""

from hgk.storage.files import ModelFileError, describe, load, save

__all__ = ["ModelFileError", "describe", "load", "save"]
