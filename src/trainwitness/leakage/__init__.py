"""What gradients give away: labels, inputs, tokens; and what defences are worth."""
