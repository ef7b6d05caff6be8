"""The source mutator and its edits."""

from harness.search.mutate import (  # importing a module registers its edits
    algorithm,
    constants,
    cuda,
    host,
    loops,
    memory,
    precision,
    programs,
    recombine,
    restructure,
    torch_forms,
    torch_ops,
)
from harness.search.mutate.classify import operator_class
from harness.search.mutate.mutator import SourceMutator
from harness.search.mutate.proposal import Feedback, Mutator, Proposal, Rejected
from harness.search.mutate.recorded import RecordedMutator
from harness.search.mutate.registry import EDITS, Edit

__all__ = [
    "EDITS",
    "Edit",
    "Feedback",
    "Mutator",
    "Proposal",
    "RecordedMutator",
    "Rejected",
    "SourceMutator",
    "algorithm",
    "constants",
    "cuda",
    "host",
    "loops",
    "memory",
    "operator_class",
    "precision",
    "programs",
    "recombine",
    "restructure",
    "torch_forms",
    "torch_ops",
]
