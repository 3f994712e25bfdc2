"""What people see of a model: the shapes of its layers, and a drawing of them."""
