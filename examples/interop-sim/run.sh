#!/bin/sh
# Entry of the image: the device that the switch needs, then the switch.
set -e
if [ ! -e /dev/net/tun ]; then
    mkdir -p /dev/net
    mknod /dev/net/tun c 10 200
fi
exec python3 "$(dirname "$0")/sim.py"
