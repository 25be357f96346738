"""region4web: a web page's accessibility tree cut into functional regions, each with its purpose and state."""

from region4web.axtree import AXNode, AXTree
from region4web.regions import Abstraction, Partition, Region, RegionMap
from region4web.snapshot import Snapshot, load_snapshot, save_snapshot

__all__ = ["AXNode", "AXTree", "Abstraction", "Partition", "Region", "RegionMap", "Snapshot", "load_snapshot", "save_snapshot"]
__version__ = "0.1.0"
