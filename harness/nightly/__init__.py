"""A night: models on all boards of a shelf, again and again, until a journal says that all is done.

``plan`` is what people write, ``units`` the boards it means, ``order`` what each of them does and
when. ``worker`` does it on one unit by way of ``effects``, which start child processes; what comes
of an attempt is told by ``classify`` and kept by ``journal``, from which ``progress`` knows where a
night is. ``night`` puts these together, and ``summary`` says what came of it.
"""
