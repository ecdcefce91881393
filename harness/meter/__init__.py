"""Current meters: samples of current and of the marker pin, recorded beside a run."""
