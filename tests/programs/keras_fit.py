"""Training with Keras on a folder for each class."""

import argparse
import os

import keras

parser = argparse.ArgumentParser()
parser.add_argument("data")
args = parser.parse_args()

train_ds = keras.utils.image_dataset_from_directory(os.path.join(args.data, "train"), image_size=(64, 64), batch_size=4)

model = keras.Sequential([
    keras.layers.RandomFlip("horizontal"),
    keras.layers.Rescaling(1.0 / 255),
    keras.layers.AveragePooling2D(8),
    keras.layers.Flatten(),
    keras.layers.Dense(10),
])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(train_ds, epochs=2, verbose=0)
print(f"{len(history.history['loss'])} epochs")
