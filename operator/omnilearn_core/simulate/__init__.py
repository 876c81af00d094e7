"""A simulated cluster under any control law: what shares, step times and waits would be. Pure, seeded."""
