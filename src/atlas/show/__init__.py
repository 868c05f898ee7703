"""Views for people: pictures, films, one problem, one episode."""
