"""What a fit leaves, as scikit-learn's users look for it: attributes that end in an underscore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hgk.events import Event
from hgk.importance import Importance
from hgk.kernels import Kernel
from hgk.machines import Machine
from hgk.model import Model
from hgk.permutation import permutation_importance


class FittedAttributes:
    """All of them are of ``model_``."""

    _model: Model
    device: str

    @property
    def model_(self) -> Model:
        """The fitted model, which computes where ``device`` says."""
        check_is_fitted(self)
        model = self._model
        return model if model.device == self.device else replace(model, device=self.device)

    @property
    def machine_(self) -> Machine:
        return self.model_.machine

    @property
    def kernel_(self) -> Kernel:
        names = tuple(feature.name for feature in self.model_.inputs.encoder.features)
        return self.machine_.kernel.with_inputs(self.model_.inputs, names)

    @property
    def alpha_(self) -> np.ndarray:
        alpha = self.machine_.alpha.numpy()
        return alpha[..., 0] if self.model_.target.single and alpha.shape[-1] == 1 else alpha

    @property
    def lam_(self) -> float:
        return self.machine_.lam

    @property
    def gamma_(self) -> float:
        return self.machine_.kernel.gamma

    @property
    def X_fit_(self) -> np.ndarray:
        return self.model_.need_training("X_fit_ is part of").table

    @property
    def history_(self) -> tuple[Event, ...]:
        return self.model_.history

    @property
    def node_shares_(self) -> np.ndarray:
        """The share of the kernels' exponents by first-layer node and column."""
        return self.model_.node_importances

    @property
    def exponent_shares_(self) -> np.ndarray:
        """The same by column: a diagnostic of the kernel, which says nothing of predictions."""
        return self.model_.node_importances.sum(0)

    @property
    def importance_(self) -> Importance:
        """The importance of columns with its errors, computed when first asked for; see :mod:`hgk.permutation`."""
        if self.model_.importance is None:
            self._model = replace(self._model, importance=permutation_importance(self.model_))
        return cast(Importance, self._model.importance)

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much worse predictions of unseen rows become when a column is permuted, as shares that sum to 1.

        Exactly 0 for columns where that is within noise, and for all of them where no column tells anything.
        """
        return self.importance_.shares

    @property
    def loo_predictions_(self) -> np.ndarray:
        """Leave-one-out predictions for the training rows, in the order they were given.

        Of a row that was given several times, one repetition is left out; a row of weight 0 gets its ordinary
        prediction. λ, γ and the kernel's weights stay fixed. Computed when first asked for.

        They are exact for least squares, and to one Newton step for the logistic loss of classes that are solved
        together. With another loss they are predictions by the machines of the folds that the row is not in, a fifth of
        the rows being left out at once (NaN for rows of folds that a fit with the preset "paper" did not come to before
        it was stopped).
        """
        return self.model_.leave_one_out_predictions()

    def restore(self, model: Model, names: Sequence[str] | None) -> None:
        """Take a model, such as one from a file, that was fitted on columns of these names."""
        self.n_features_in_ = len(model.inputs.columns)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._model = model

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self)
