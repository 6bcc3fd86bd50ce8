"""An agent in a process of its own, to be killed: `process.py <framework> <store> <script as JSON>`."""

import json
import sys

from script import player_of

if __name__ == "__main__":
    _, framework, store, turns = sys.argv
    player_of(framework).play(json.loads(turns), store)
