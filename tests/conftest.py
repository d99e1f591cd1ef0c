"""Makes the helpers of this folder importable, wherever the folder stands."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
