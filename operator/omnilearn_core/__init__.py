"""What every process shares: the API, the control laws and the simulator. Pure; needs pydantic alone."""
