# The numbers to record, when check.sh finds nothing wrong. Ten minutes.
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
measure "machine probe jpeg paths throughput peers tests" 8.6
