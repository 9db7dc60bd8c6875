"""The package's description: the README without what leads nowhere outside of the repository."""

import re
from pathlib import Path

from setuptools import setup

text = Path(__file__).with_name("README.md").read_text("utf-8")
text = re.sub(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n*", "", text)  # pictures
text = re.sub(r"\[([^]]*)\]\((?!https?:|#)[^)]*\)", r"\1", text)  # links, of which the words stay
setup(long_description=text, long_description_content_type="text/markdown")
