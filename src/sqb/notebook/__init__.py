"""sqb in notebooks: `%load_ext sqb`, `%sqb plan`, `%%sqb`. The only importer of IPython."""
