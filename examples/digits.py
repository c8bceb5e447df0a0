"""A network that reads handwritten digits, in a dozen lines: build, train, test, save, load."""

from pullback import data, nn

X, y = data.mnist5k()
(X, X_test), (y, y_test) = data.split(X, y, held_back=1000, stratify=y)

net = nn.Network(
    [
        nn.Input((28, 28, 1)),
        nn.Convolutional(16, 5, activation="relu"),
        nn.MaxPool(2),
        nn.Connected(64, activation="relu"),
        nn.Dropout(0.3),
        nn.Connected(10),
        nn.Softmax(),
    ]
)
net.compile(optimizer=nn.Adam(2e-3), loss="cross_entropy", metrics=["accuracy"])
net.summary()
net.fit(X, y, epochs=5, batch_size=64, validation_split=0.1)

print("held-out accuracy:", net.evaluate(X_test, y_test)["accuracy"])
net.save("digits.safetensors")
print("the same after load:", (nn.Network.load("digits.safetensors").predict(X_test) == net.predict(X_test)).all())
