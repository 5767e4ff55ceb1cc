"""From run records to the paper's tables and figures, the reported numbers beside ours. Imports neither torch nor ray.

python -m analysis table main outputs/ --out DIR      # or: from analysis.load.study import load; load(["outputs"])
python -m analysis doctor outputs/
python -m analysis paper --out DIR
"""
