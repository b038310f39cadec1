"""`python -m pyspark_pier`, and the file that spark-submit runs: the command `pier-spark`."""

import sys

from pyspark_pier.command import main

if __name__ == "__main__":
    sys.exit(main())
