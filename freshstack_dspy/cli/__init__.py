"""The command line: parse, call, print."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """Run `freshstack`; an expected error is one line on standard error.

    Exit codes: 0 done; 1 an error of ours, in one line; 2 wrong words; 3 requests were deferred and
    wait for replies; 130 interrupted.
    """
    from freshstack_dspy.cli.app import app
    from freshstack_dspy.cli.lines import complain
    from freshstack_dspy.errors import DeferredError, FreshstackError

    try:
        app(prog_name="freshstack")
    except DeferredError as error:
        complain(str(error))
        sys.exit(3)
    except FreshstackError as error:
        complain(f"error: {error}")
        sys.exit(1)
    except SystemExit as left:
        if left.code == _INTERRUPTED:
            complain("interrupted; run it again to go on: nothing that was paid for is lost")
        raise
