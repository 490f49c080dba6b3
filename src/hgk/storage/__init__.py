"""A fitted model as one file, and back; and other files, written whole or not at all."""

from hgk.storage.atomic import WriteError, open_regular, write_atomically
from hgk.storage.files import describe, load, register, save
from hgk.storage.schema import ModelFileError, is_model
from hgk.texts import STEERING, SentenceError, printable
