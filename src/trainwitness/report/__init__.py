"""Results to pictures: the only place that draws."""
