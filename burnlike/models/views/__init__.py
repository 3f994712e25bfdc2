"""Views of a model for people: the shapes of its layers, and a drawing."""
