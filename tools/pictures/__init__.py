"""The pictures of the documents: SVG that is written by hand, light or dark as the reader's system is.

`python -m tools.pictures` writes them to docs/images, `--check` says whether those are what it would write. A picture
is made of the code and of what `digits/` holds of one real run, so it does not depend on the machine or the clock.
"""
