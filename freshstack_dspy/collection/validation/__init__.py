"""Validating collections and exports."""

from freshstack_dspy.collection.validation.findings import Finding, Report
from freshstack_dspy.collection.validation.validating import (
    VALIDATED_FORMATS,
    ValidatedFormat,
    validate,
)

__all__ = ["VALIDATED_FORMATS", "Finding", "Report", "ValidatedFormat", "validate"]
