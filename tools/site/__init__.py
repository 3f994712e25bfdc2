"""What `make docs-site` builds the site with: pages are staged in .cache/site-source, Sphinx reads those."""
