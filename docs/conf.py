"""Sphinx configuration for `make docs`. The build loads nothing from the network, and every warning is an error."""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from pages import complete, link_names, shown  # noqa: E402  (in this folder)
from pictures import Pictures, PicturesOf, name_thumbnails  # noqa: E402

import gpuimg  # noqa: E402

project = "gpuimg"
author = "the authors of gpuimg"
project_copyright = author
version = release = gpuimg.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "**/sg_execution_times.rst", "sg_execution_times.rst", "gallery/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
nitpicky = True  # a reference without a target is an error
nitpick_ignore_regex = [("py:.*", r"(numpy|cupy|torch|jax|tensorflow|collections|typing)\..*")]

# -- docstrings --------------------------------------------------------------------------------------------------------

autodoc_mock_imports = ["torch"]  # for gpuimg.torch, instead of installing half a gigabyte
autodoc_typehints = "none"  # the docstrings give the types of parameters
autodoc_member_order = "bysource"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False


def _skips(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool:
    """Skip the generated docstrings of named tuples' fields, which the class documents as attributes."""
    return skip or str(getattr(member, "__doc__", "")).startswith("Alias for field number")


#: Classes that only functions create: their signatures are not shown.
WITHOUT_SIGNATURE = {
    "gpuimg.Batch", "gpuimg.Loader", "gpuimg.LoadedBatch", "gpuimg.DecodeError",
    "gpuimg.VideoError", "gpuimg.torch.Loader", "gpuimg.torch.TensorBatch",
}  # fmt: skip


def _signature(app: Any, what: str, name: str, value: Any, options: Any, signature: Any, returns: Any) -> Any:
    """Hide the signatures of some classes; return that of a class whose base is mocked here."""
    if name in ("gpuimg.torch.IterableDataset", "gpuimg.torch.Dataset"):
        _, *parameters = inspect.signature(value.__init__).parameters.values()
        bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
        return str(inspect.Signature(bare)), None
    if name in WITHOUT_SIGNATURE or name.rpartition(".")[0] == "gpuimg.typing":
        return "", None
    return (shown(signature), None) if signature else None


# -- pages -------------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_substitutions = {"version": version}
myst_heading_anchors = 3


def _complete(app: Any, page: str, source: list[str]) -> None:
    """Insert what stands elsewhere: the changelog, and a table of all names into the index of the reference."""
    if page == "changelog":
        text = (HERE.parent / "CHANGELOG.md").read_text()
        source[0] = text.replace("](docs/", "](").replace("](SECURITY.md)", "](project.md#security)")
    elif page == "reference/index":
        pages = re.findall(r"^   (\w+)$", source[0], re.MULTILINE)
        source[0] += "".join(_names(HERE / "reference" / f"{page}.rst") for page in pages)


def _names(page: Path) -> str:
    """Return a heading and the tables of names of a page of the reference; nothing for a page without any."""
    text = page.read_text() if page.is_file() else ""
    if ".. autosummary::" not in text:
        return ""
    title = text.partition("\n")[0]
    tables = re.findall(r"^\.\. currentmodule::.*\n|^\.\. autosummary::\n(?:   .*\n|\n)*", text, re.MULTILINE)
    body = "\n".join(tables).replace("   :toctree: generated\n", "")
    return f"\n:doc:`{title} <{page.stem}>`\n{'-' * (len(title) + 30)}\n\n{body}\n"


copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# -- gallery -----------------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": (Pictures(),),
    "reset_modules": (),
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"gpuimg\._batch\.batch\.Batch",  # a picture by the scraper
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "download_all_examples": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "doc_module": ("gpuimg",),
    "backreferences_dir": None,
    "reference_url": {"gpuimg": None},
    "notebook_images": False,
}

# -- looks -------------------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "gpuimg"
html_static_path = ["_static"]
html_css_files = ["gpuimg.css"]
html_search_scorer = str(HERE / "scorer.js")
html_extra_path = ["llms.txt"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_sidebars = {page: [] for page in ("index", "install", "changelog", "project")}  # not even a title
html_theme_options = {
    "logo": {"text": "gpuimg"},
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["version"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "show_prev_next": True,
    "pygments_light_style": "tango",
}


def setup(app: Any) -> None:
    """Connect the handlers above; Sphinx calls this."""
    app.connect("autodoc-skip-member", _skips)
    app.connect("autodoc-process-signature", _signature)
    app.connect("source-read", _complete)
    app.connect("doctree-read", name_thumbnails)
    app.connect("doctree-read", link_names)
    app.connect("autodoc-process-docstring", complete, priority=900)  # after numpydoc
    app.add_directive("pictures-of", PicturesOf)
