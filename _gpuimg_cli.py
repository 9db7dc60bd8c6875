"""The console command. It is not in the package, whose import takes the first second, so that Ctrl-C ends this, too."""

import signal
import sys


def main() -> int:
    """Run the command line of gpuimg; after Ctrl-C print one line and return 130."""
    try:
        try:
            from gpuimg._cli.main import main
        except ValueError as error:  # GPUIMG_NATIVE, which is read when the loops are imported
            print(f"gpuimg: {error}", file=sys.stderr)
            return 1
        return main()
    except KeyboardInterrupt:
        print("gpuimg: interrupted", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own end would print a traceback


if __name__ == "__main__":
    sys.exit(main())
