"""Teachers: which problems to play next. A problem is an opaque pytree here."""
