"""HOW a step is computed: the step function g, and the State of a live model and optimiser."""
