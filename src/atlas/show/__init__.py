"""What people look at: pictures, films, one problem, one episode."""
