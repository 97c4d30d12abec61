"""Results to a page that people read: the only place that draws. Each kind of result has a file in `kinds/`."""
