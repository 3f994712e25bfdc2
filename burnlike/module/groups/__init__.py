"""Groups, which select parameters, and their rules. Imports no torch."""
