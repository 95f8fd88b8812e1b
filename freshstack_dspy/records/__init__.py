"""The records of a test collection: frozen, typed, with every id explicit.

A record of a collection is one line of JSON in the file named in `docs/data-model.md`.
Nothing is ever parsed out of an id.
Records that a language model made carry `call_id`, the key of the reply they came from.
"""

from freshstack_dspy.records.answers import (
    Agreement,
    AgreementStatus,
    Answer,
    AnsweringFailure,
    AnswerStatus,
    AssignedAnswer,
    AssignedNugget,
    Assignment,
    CitedSentence,
    OmittedChunk,
)
from freshstack_dspy.records.documents import Chunk, LicenceFile, SkipKind, SkippedFile, SourceFile
from freshstack_dspy.records.judging import (
    SCALES,
    Failure,
    HumanLabel,
    Judgment,
    Scale,
    ScaleDefinition,
    ScaleName,
    Status,
    Step,
    Vote,
)
from freshstack_dspy.records.pooling import (
    TECHNIQUES,
    Candidate,
    CandidateOrigin,
    Found,
    RunRank,
    Technique,
    TechniqueRank,
)
from freshstack_dspy.records.queries import (
    Attribution,
    Contamination,
    Expansion,
    ExpansionKind,
    Importance,
    Nugget,
    Query,
    QueryOrigin,
    QuerySlice,
    SliceName,
)
from freshstack_dspy.records.rankings import ScoredChunk, ranked
from freshstack_dspy.records.record import Record

__all__ = [
    "SCALES",
    "TECHNIQUES",
    "Agreement",
    "AgreementStatus",
    "Answer",
    "AnswerStatus",
    "AnsweringFailure",
    "AssignedAnswer",
    "AssignedNugget",
    "Assignment",
    "Attribution",
    "Candidate",
    "CandidateOrigin",
    "Chunk",
    "CitedSentence",
    "Contamination",
    "Expansion",
    "ExpansionKind",
    "Failure",
    "Found",
    "HumanLabel",
    "Importance",
    "Judgment",
    "LicenceFile",
    "Nugget",
    "OmittedChunk",
    "Query",
    "QueryOrigin",
    "QuerySlice",
    "Record",
    "RunRank",
    "Scale",
    "ScaleDefinition",
    "ScaleName",
    "ScoredChunk",
    "SkipKind",
    "SkippedFile",
    "SliceName",
    "SourceFile",
    "Status",
    "Step",
    "Technique",
    "TechniqueRank",
    "Vote",
    "ranked",
]
