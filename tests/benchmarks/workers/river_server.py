"""river behind FastAPI, as one would write it: PORT. Models are in memory only."""

import logging
import sys
from collections import defaultdict

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from river import linear_model, preprocessing

app = FastAPI()
models = defaultdict(lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression())


class Asked(BaseModel):
    """A row to predict."""

    features: dict[str, float]


class Labelled(Asked):
    """A row to learn."""

    label: str


@app.post("/models/{name}/feedback")
async def feedback(name: str, row: Labelled) -> dict:
    """Predict, then learn."""
    prediction = models[name].predict_one(row.features)
    models[name].learn_one(row.features, row.label == "UP")
    return {"prediction": prediction}


@app.post("/models/{name}/predict")
async def predict(name: str, row: Asked) -> dict:
    """Predict."""
    shares = models[name].predict_proba_one(row.features)
    told = {str(key): share for key, share in shares.items()}
    return {"prediction": max(shares, key=shares.get), "probabilities": told}


logging.basicConfig(level="WARNING")
uvicorn.run(app, port=int(sys.argv[1]), log_config=None, access_log=False)
