"""The demo: four acts played on a world that is really changed, and put back."""
