"""Who judges a kernel: a machine on some rows predicts rows that no gradient has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hgk.kernels import HierarchicalKernel
from hgk.learners.default.kinds import plain_kernel
from hgk.learners.default.settings import Settings
from hgk.machines import Rows
from hgk.progress import Progress
from hgk.search import FOLDS, Family, Task, lam_grid, search
from hgk.solvers import Ask, choose


@dataclass(frozen=True, eq=False)
class Verdict:
    """A kernel, the rows of its last batches, the criterion there, and what the judge says at every exponent and λ."""

    kernel: HierarchicalKernel
    batch: int
    criterion: float
    risks: torch.Tensor
    predictions: torch.Tensor
    complete: bool = True  # not stopped on the way


def judge_lams(task: Task, settings: Settings) -> np.ndarray:
    return lam_grid(task.rows.size, settings.judged_lams) if len(task.lams) > 1 else task.lams


@dataclass(frozen=True)
class Judge:
    """One fold: the rows to learn from, some rows for a machine to be trained on, and the rows set aside.

    Where there are many, some of the other rows are kept from the gradients, too, for early stopping to watch: were
    they among the rows set aside, the verdict would be flattered.
    """

    training: torch.Tensor
    machine: torch.Tensor
    out: torch.Tensor
    watched: torch.Tensor
    complete: bool
    settings: Settings

    @classmethod
    def of(cls, task: Task, fold: int, rng: np.random.Generator, settings: Settings) -> Judge:
        rest = torch.from_numpy(rng.permutation(task.training_part(fold).numpy()))
        out = torch.from_numpy(rng.permutation(np.flatnonzero(task.fold_of == fold))[: settings.judged])
        watched = settings.watched if len(task.rows) >= settings.many else 0
        complete = task.rows.given < settings.few
        return cls(rest[watched:], rest[-settings.judge :], out, rest[:watched], complete, settings)

    def __call__(
        self, kernel: HierarchicalKernel, task: Task, batch: int | None = None, c: float = 1.0, complete: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Risks and clipped predictions on the rows set aside, for every exponent of the width and every λ.

        The exponents are tried where the weights were learned on a ``batch`` of far fewer rows; with several folds it
        has most. c = nλ, which for a Gaussian process is the variance of the noise, is the same for the smaller
        machine and for the one on all rows. With few rows, or if ``complete``, every λ is resolved, since one that
        cannot win in a fold may win in the mean; else those that cannot win have infinite risks. With many outputs λ
        are tried around the ``c`` that the weights were learned with.
        """
        return self.solved(kernel.matrix(self.rows_of(task).X.float()), task, batch, c, complete)

    def rows_of(self, task: Task) -> Rows:
        """Of the machine, and those set aside."""
        return task.rows[torch.cat([self.machine, self.out])]

    def solved(
        self, K: torch.Tensor, task: Task, batch: int | None = None, c: float = 1.0, complete: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same from the kernel's matrix."""
        rows = self.rows_of(task)
        fold_of = torch.where(torch.arange(len(rows)) < len(self.machine), -1, 0).to(rows.X.device)
        share = float(task.rows.weight.sum() / task.rows.weight[self.machine].sum())
        lams = torch.from_numpy(judge_lams(task, self.settings)) * share
        ratio = len(self.machine) / (batch or len(self.machine))
        several = ratio >= self.settings.more_rows and not self.complete
        solver: Any = choose(Ask(held_out=True, outputs=rows.Y.shape[1]))
        near = c * share / len(task.rows)
        risks: list[torch.Tensor] = []
        predictions: list[torch.Tensor] = []
        for exponent in self.settings.narrowing if several else self.settings.narrowing[:1]:
            # γ r^-e makes K to the power of r^2e
            state = solver.prepare(K if exponent == 0 else K ** (ratio ** (2 * exponent)), rows.weight, fold_of)
            known = min((float(risk.min()) for risk in risks), default=float("inf"))
            near = float(lams[int(risks[-1].argmin())]) if risks else near
            options = {"clip": task.clip, "complete": complete or self.complete, "near": near, "known": known}
            solution = solver.solve(state, rows.Y.float(), lams, **options)
            risks.append(solution.risks.to(rows.weight))
            predictions.append(solution.predictions[:, len(self.machine) :].double())
        return torch.stack(risks), torch.stack(predictions)


Judges = dict[int, Judge]


def held_out(judges: Judges) -> torch.Tensor:
    """All rows set aside and judged."""
    return torch.cat([judge.out for judge in judges.values()])


def judge_plain(
    task: Task, judges: Judges, rng: np.random.Generator, progress: Progress, settings: Settings
) -> list[Verdict]:
    """The plain Gaussian kernel on the scaled copies, γ by the grid on some rows that are never held out, judged."""
    part = np.flatnonzero(~np.isin(task.fold_of, list(judges)))
    part = part if len(part) else np.arange(len(task.rows))  # every fold is held out once
    rows = task.rows[torch.from_numpy(rng.permutation(part)[: settings.plain_rows])]
    kernel, fold_of = plain_kernel(task.features), np.arange(len(rows)) % min(FOLDS, len(rows))
    if rows.Y.shape[1] > settings.outputs:
        few = torch.arange(min(settings.plain_rows_of_many_outputs, len(rows)))
        kernel = kernel.with_gamma(_width(kernel, rows[few], task))
    else:
        kernel = kernel.with_gamma(search(kernel, rows, fold_of, task.lams, task.clip).gamma)
    judged = [judge(kernel, task) for judge in judges.values() if not progress.aborted]
    return [Verdict(kernel, 1, float("nan"), *said) for said in judged]


def _width(kernel: HierarchicalKernel, rows: Rows, task: Task) -> float:
    """γ by the last fifth of the rows."""
    family, trained = Family(kernel, rows.X.float()), len(rows) - max(1, len(rows) // FOLDS)
    Y, lams = rows.Y.float(), torch.from_numpy(task.lams)
    fold_of = torch.where(torch.arange(len(rows)) < trained, -1, 0).to(Y.device)
    solver: Any = choose(Ask(held_out=True, outputs=Y.shape[1]))
    K, risks = Y.new_empty(len(rows), len(rows)), []
    for gamma in family.gammas:
        state = solver.prepare(family.fill(gamma, K), rows.weight, fold_of)
        risks.append(solver.solve(state, Y, lams, clip=task.clip).risks.min())
    return float(family.gammas[int(torch.stack(risks).argmin())])


def at_every_lam(verdicts: Sequence[Verdict]) -> torch.Tensor:
    """Predictions of the rows set aside at every λ that all folds resolved."""
    known = torch.stack([verdict.risks[0] for verdict in verdicts]).isfinite().all(0)
    return torch.cat([v.predictions[0] for v in verdicts], 1)[known.to(verdicts[0].predictions.device)]
