"""Words that users search for, and the section that answers them: entries of the index, which a search lists first.

    python docs/searches.py docs/_build/html

asks the built site's own search for each of them, and fails unless the section comes first.
"""

import json
import sys
from pathlib import Path

#: By section, the words that lead to it; functions are found by their names.
SEARCHES = {
    "benchmarks#when-not-to-use-gpuimg": ("when not to use",),
    "coming-from-others#names-of-albumentations": ("albumentations",),
    "coming-from-others#names-of-dali": ("dali",),
    "data-formats#bad-files": (
        "corrupt",
        "corrupted images",
        "truncated",
        "damaged files",
        "bad files",
        "broken files",
    ),
    "data-formats#other-sources": ("custom dataset", "own source", "own reader"),
    "data-formats#image-files": ("png", "webp", "avif", "gif", "tiff", "heic", "image formats", "exif"),
    "data-formats#sources": ("webdataset", "lmdb", "tfrecord", "parquet"),
    "detection": ("object detection", "bounding boxes", "segmentation"),
    "detection#text-labels-and-mosaics": ("yolo", "mosaic", "text labels"),
    "gallery/plot_user_functions": ("custom transform", "custom function"),
    "gpu": ("cuda", "nvimagecodec", "cupy pytorch"),
    "gpu#install": ("cupy",),
    "install#extras": ("extras",),
    "install#systems": ("windows", "macos", "mac", "arm"),
    "many-machines#resuming-after-a-crash": ("torchrun crash", "rank crashed", "elastic"),
    "many-machines": ("docker", "container", "slurm", "torchrun", "distributed training", "ddp", "rank"),
    "performance#data-sets-that-fit-in-memory": ("fit in memory",),
    "performance#finding-the-bottleneck": ("slow", "bottleneck", "speed up"),
    "performance#threads": ("num_workers", "workers", "threads", "out of memory"),
    "project": ("license", "versions"),
    "reference/generated/gpuimg.image_info": ("size without decoding",),
    "reference/generated/gpuimg.permute_channels": ("bgr",),
    "porting": ("imagefolder", "dataloader"),
    "recipes#16-bit-images": ("16 bit", "16-bit png", "uint16"),
    "recipes#a-hugging-face-data-set-in-memory-or-streaming": ("streaming", "hugging face datasets"),
    "recipes#bfloat16-and-channels-last": ("channels_last", "channels last", "bfloat16"),
    "recipes#cache-a-small-data-set-in-memory": ("cache",),
    "recipes#class-imbalance-balanced-sampling": ("class imbalance", "weighted sampling", "imbalanced"),
    "recipes#decode-once-and-keep-the-images-on-disk": ("memmap", "cache on disk", "decoded on disk"),
    "recipes#dicom-hdf5-numpy-images-that-are-arrays": ("dicom", "hdf5", "h5py", "npy", "numpy arrays"),
    "recipes#find-bad-files-and-how-long-an-epoch-takes": (
        "check data set",
        "check files",
        "time of an epoch",
        "long epoch",
        "epoch time",
    ),
    "recipes#test-time-augmentation-ten-crops-or-flips-and-the-mean-over-views": (
        "tta",
        "average predictions",
        "mean predictions",
    ),
    "recipes#random-crops-of-one-large-jpeg": ("large jpeg", "part of a jpeg", "region of a jpeg", "large image crops"),
    "recipes#mixup-or-cutmix-at-random-with-soft-labels": ("soft labels", "mixup or cutmix"),
    "recipes#two-views-for-contrastive-learning-simclr-moco-byol": ("contrastive", "two views"),
    "recipes#my-own-operation-with-two-parameters": (
        "own operation",
        "own augmentation",
        "custom augmentation",
        "augmentation parameter",
    ),
    "detection#predictions-in-pixels-of-the-source": (
        "undo letterbox",
        "unletterbox",
        "map boxes back",
        "scale boxes back",
        "inverse boxes",
        "boxes original",
    ),
    "recipes#inspect-or-repeat-what-was-drawn": ("replay",),
    "recipes#video-clips-with-labels": ("video labels", "clips labels"),
    "recipes#multi-label-classification": ("multi-label", "multilabel"),
    "recipes#train-and-validation-split-of-one-folder": ("validation split", "train test split"),
    "recipes#image-and-mask-pngs-for-segmentation": ("palette", "mask png"),
    "recipes#images-in-a-zip-file": ("zip", "zip file"),
    "recipes#labels-from-a-csv-file": ("csv",),
    "recipes#mean-and-standard-deviation-of-a-data-set": ("mean and std",),
    "recipes#original-size-and-scale-of-each-image": ("original size", "original sizes", "scale factor"),
    "recipes#predictions-for-a-test-set-to-a-csv-file": ("predictions", "file names"),
    "recipes#resume-in-the-middle-of-an-epoch": ("resume", "checkpoint", "crash", "restart"),
    "recipes#which-operation-is-slow": ("profile", "profiling", "slow operation", "time per operation"),
    "recipes#save-augmented-images-to-disk": ("save augmented images",),
    "remote#settings": ("token", "http headers", "authorization", "credentials"),
    "remote": ("s3", "object store", "http"),
    "training-loops#choosing-samples": ("subset", "sampler", "indices"),
    "training-loops#jax": ("jax", "pmap"),
    "training-loops#reproducibility": ("seed", "deterministic", "reproducible"),
    "training-loops#a-training-script": ("training script", "complete example", "train model"),
    "writing#on-a-gpu": ("encode on a gpu", "save gpu"),
    "video": ("videos", "video"),
    "vlm#in-transformers-one-argument": ("transformers", "hugging face processor"),
    "writing": ("save jpeg", "write jpeg", "save images", "encode", "write png"),
}

#: Tasks as users word them, by the words above that they contain.
TASKS = {
    "one of two torchrun ranks crashed, resume": "torchrun crash",
    "save augmented images as jpeg with source filename": "save augmented images",
    "resume after a crash": "torchrun crash",
    "cache the decoded data set on disk": "cache on disk",
    "images in a zip archive": "zip",
    "yolo txt labels with mosaic": "yolo",
    "masks as palette pngs": "palette",
    "16-bit png to float": "16-bit png",
    "original sizes and scale factors": "original sizes",
    "save augmented images as jpeg": "save augmented images",
    "jax pmap": "pmap",
    "streaming from hugging face datasets": "streaming",
    "which operation is slow": "slow operation",
    "bfloat16 and channels_last": "bfloat16",
    "evaluate a subset in its order": "subset",
    "video clips and a csv of labels": "clips labels",
    "cupy arrays to pytorch": "cupy pytorch",
    "encode results on a gpu": "encode on a gpu",
    "read dicom files": "dicom",
    "http with a token": "token",
    "find bad files before training": "bad files",
    "how long does an epoch take": "long epoch",
}

#: What Sphinx's search expects of a browser.
_BROWSER = """
var window = globalThis, DOCUMENTATION_OPTIONS = {}, SPHINX_HIGHLIGHT_ENABLED = false, _ = text => text;
var document = {readyState: "loading", addEventListener() {}, getElementById: () => null,
                documentElement: {dataset: {content_root: ""}}};
var _ready = () => {};
"""


def of_page(page: str) -> list[tuple[str, str]]:
    """Return the words and anchors of a page."""
    found = []
    for section, words in SEARCHES.items():
        name, _, anchor = section.partition("#")
        if name == page:
            found += [(word, anchor) for word in words]
    return found


def misled(site: Path, words: dict[str, str]) -> list[str]:
    """Return what a search finds first in a built site, for words that lead elsewhere than to their section."""
    from py_mini_racer import MiniRacer

    wrong = []
    with MiniRacer() as engine:  # closed, as its thread may keep Python from ending
        engine.eval(_BROWSER)
        for name in ("_static/searchtools.js", "_static/language_data.js", "searchindex.js"):  # as search.html
            engine.eval((site / name).read_text().replace("const Search =", "var Search ="))
        for word, section in words.items():
            asked = f"Search._performSearch(...Search._parseQuery({json.dumps(word)}))"
            name, _, anchor, *_ = json.loads(str(engine.eval(f'JSON.stringify({asked}.at(-1) || ["nothing", "", ""])')))
            if f"{name}{anchor}" != section and name != section:
                wrong.append(f"{word!r} leads to {name}{anchor}, not to {section}")
    return wrong


def main() -> None:
    """Search for all words."""
    words = {word: section for section, words in SEARCHES.items() for word in words}
    words |= {task: words[word] for task, word in TASKS.items()}
    words["random erasing of half of the images"] = "reference/generated/gpuimg.random_erasing"
    words["tiles of a large image"] = "reference/generated/gpuimg.tiles"
    for function in ("random_crop", "random_resized_crop", "gaussian_blur", "mixup", "letterbox"):
        words[function.replace("_", " ")] = f"reference/generated/gpuimg.{function}"
    wrong = misled(Path(sys.argv[1]), words)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(words)} searches lead to their sections")


if __name__ == "__main__":
    main()
