#!/bin/sh
# Installs the peers into $PEERS, a Python environment of its own: about 4 GB, some minutes.
set -eu
: "${PEERS:=$HOME/.cache/flcc-peers}"
python3 -m venv "$PEERS"
"$PEERS/bin/pip" install --quiet numpy scipy opencv-python-headless scikit-image SimpleITK pyfftw ducc0 ipp mkl
# The last of its wheels; peers.py does without it.
"$PEERS/bin/pip" install --quiet onednn-cpu-gomp || echo "oneDNN is left out" >&2
# The dispatcher of IPP's wheel opens its libraries by a name that the wheel lacks.
cd "$PEERS/lib"
for library in libipp*.so.12; do
    [ -e "$library.1" ] || ln -s "$library" "$library.1"
done
