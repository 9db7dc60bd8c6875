# DALI on the same machine. Its wheels are too large for a pack; here is how to carry them in pieces:
#
#     python -c 'from pathlib import Path; from bench.gpu import pack; pack.pack_wheels(Path("dali"), Path("d.tar.xz"), "3.12")'
#     split -b 48M d.tar.xz dali.
#
# Copy each of them to $WORK/dali on that machine, then run this.
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cat "$WORK"/dali/dali.* | tar xJ -C "$WORK/site"
measure "machine probe peers" 5.0
