"""The command line: parse, call, print."""

import sys


def main() -> None:
    """Run `freshstack`; an expected error is one line on standard error.

    Exit codes: 0 done; 1 an error of ours, in one line; 2 wrong words; 3 requests were deferred and
    wait for replies; 130 interrupted.
    """
    from freshstack_dspy.cli.app import app
    from freshstack_dspy.errors import DeferredError, FreshstackError

    try:
        app()
    except DeferredError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
    except FreshstackError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print(
            "interrupted; run it again to go on: nothing that was paid for is lost", file=sys.stderr
        )
        sys.exit(130)
