"""The studio: draw a level, say a task, see the verdict, play it, watch a policy; in a browser, on this machine."""
