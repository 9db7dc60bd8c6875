# First: does it work, is it right, and how fast are its parts? Ten minutes.
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
measure "machine probe warm tests agreement jpeg sentinel order paths throughput" 8.6
