"""Models of named sparse rows, and a few of their rows in every form."""

SPARSE = {"algorithm": "sparse_dfop", "params": {"compressed_dim": 32}}
SPAM = {**SPARSE, "task": "classification", "labels": ["spam", "ham"]}
SUMS = {"algorithm": "sparse_dfop", "task": "regression", "params": {"compressed_dim": 32, "forgetting_rate": 0.01}}
SVM = {"Content-Type": "text/x-svmlight"}
ROWS = [{"cheap": 1.0, "pills": 2.0}, {"meeting": 1.0}, {}, {"cheap": 0.5, "größe": -1.5}, {"pills": 1.0, "now": 1.0}]
LABELS = ["spam", "ham", "ham", "spam", "spam"]


def lists(rows=ROWS, **more):
    return {"rows": [{"names": [*row], "values": [*row.values()]} for row in rows], **more}


def svmlight(rows=ROWS, labels=LABELS):
    cells = [[f"{name}:{value!r}" for name, value in row.items()] for row in rows]
    return "".join(" ".join([label, *row]) + "\n" for row, label in zip(cells, labels, strict=True)).encode()
